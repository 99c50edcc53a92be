"""Template tags of identities and grants: state badges, kind icons, links, limits."""

from django import template
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from common.console import badges
from common.console.pages import link
from common.templatetags.console import badge, icon
from nhi.console import state_badges as standing
from nhi.models import Credential, Identity
from nhi.models.credentials import TimeBoxed
from nhi.models.grants import Grant

register = template.Library()


@register.simple_tag
def state_of(row: Identity | TimeBoxed) -> SafeString:
    if isinstance(row, Identity):
        return SafeString(badge(standing.identity(row)))
    if isinstance(row, Credential):
        return SafeString(badge(standing.credential(row)))
    return SafeString(badge(standing.grant(row)))


@register.simple_tag
def kind_icon(identity: Identity) -> SafeString:
    """The kind as an icon, and as a word for screen readers."""
    kind_badge = badges.find("nhi.Kind", identity.kind)
    return format_html(
        '<span class="gh-kind-icon" title="{0}">{1}<span class="gh-hidden">{0}: </span></span>',
        kind_badge.label,
        icon(kind_badge.symbol),
    )


@register.simple_tag
def named(identity: Identity) -> SafeString:
    """A link by name, with the kind before it."""
    return format_html(
        '<span class="gh-kind">{}<a href="{}">{}</a></span>',
        kind_icon(identity),
        link("nhi_identity_hub", identity.pk),
        identity.name,
    )


@register.simple_tag
def other_side(grant: Grant, side: str) -> Identity:
    """The identity at the other end of a grant."""
    identity: Identity = getattr(grant, side)
    return identity


@register.simple_tag
def limits_of(grant: Grant) -> SafeString:
    """The type of a grant and its limits, as chips."""
    kind = str(getattr(grant, "permission_type", ""))
    limits = [kind, *grant_limits(grant)] if kind else grant_limits(grant)
    if not limits:
        return format_html('<span class="gh-subtle">{}</span>', "none")
    return format_html_join(" ", '<span class="gh-count">{}</span>', ((limit,) for limit in limits))


def grant_limits(grant: Grant) -> list[str]:
    """The limits of a grant in a word or two each, for tables and the export."""
    limits = []
    if getattr(grant, "allowed_parameters", None) is not None:
        limits.append("arguments")
    if (actions := getattr(grant, "allowed_actions", None)) is not None:
        limits.append(f"only {', '.join(actions[:3])}{' …' if len(actions) > 3 else ''}" if actions else "no action")
    if (calls := getattr(grant, "max_calls_per_hour", None)) is not None:
        limits.append(f"{calls} per hour")
    if getattr(grant, "requires_approval", False):
        limits.append("needs approval")
    return limits
