"""The credentials: whose, how they stand, when they end, who used them from where. The secret is nowhere."""

from collections import Counter
from datetime import timedelta
from typing import Any

from django.contrib import admin
from django.db.models import Case, Q, QuerySet, When
from django.db.models.functions import Now
from django.http import HttpRequest
from django.urls import URLPattern
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from common.console import times
from common.console.lists import Bulk, Column, Filter, Preset, text_filter
from common.console.pages import link
from common.db.querysets import LIVE_CONDITION
from common.templatetags.console import when
from nhi.access import rights
from nhi.actors import Actor
from nhi.admin.credentials import revoke
from nhi.console import columns, state_badges
from nhi.console.base import VisibleRowsAdmin
from nhi.console.request_actor import actor_of
from nhi.credentials.credentials import MAX_LIVE
from nhi.models import Credential, Identity
from nhi.templatetags.identities import kind_icon, state_of

STATES = (
    ("live", "Live"),
    ("rotating", "Rotating"),
    ("ends_soon", f"Ends within {state_badges.CREDENTIAL_ENDS_SOON.days} days"),
    ("expired", "Expired"),
    ("revoked", "Revoked"),
)
AGES = (("90", "Older than 90 days"), ("180", "Older than 180 days"), ("365", "Older than a year"))
ENDS = (("1", "Within 1 day"), ("7", "Within 7 days"), ("30", "Within 30 days"), ("90", "Within 90 days"))
USES = (("30", "Not for 30 days"), ("90", "Not for 90 days"), ("never", "Never"))
#: What still works stands first, and of it what ends first.
ENDED = Case(When(LIVE_CONDITION, then=0), default=1)


def _in_state(rows: Any, value: str) -> Any:
    if value == "rotating":
        return rows.live().filter(rotated_at__isnull=False)
    if value == "ends_soon":
        return rows.live().filter(expires_at__lte=Now() + state_badges.CREDENTIAL_ENDS_SOON)
    return rows.in_state(value)


def _ends(rows: Any, value: str) -> Any:
    return rows.live().filter(expires_at__lte=Now() + timedelta(days=int(value)))


def _aged(rows: Any, value: str) -> Any:
    return rows.filter(created_at__lt=Now() - timedelta(days=int(value)))


def _unused(rows: Any, value: str) -> Any:
    if value == "never":
        return rows.filter(last_used_at=None)
    before = Now() - timedelta(days=int(value))
    return rows.filter(Q(last_used_at__lt=before) | Q(last_used_at=None, created_at__lt=before))


def _owner(rows: Any, value: str) -> Any:
    """Who answers for it: the owner of the identity, or the person whose own it is."""
    return rows.filter(Q(identity__owner__username__iexact=value) | Q(user__username__iexact=value))


def _holder(row: Any) -> SafeString:
    if row.identity is not None:
        return format_html('<span class="gh-kind">{}{}</span>', kind_icon(row.identity), row.identity.name)
    return format_html('<span>{} <span class="gh-subtle">(person)</span></span>', row.user.username)


def _used(row: Any) -> SafeString:
    at = when(row.last_used_at)
    return format_html("{} from {}", at, row.last_used_from) if row.last_used_from else at


def _used_at(row: Any) -> str:
    return times.stamp(row.last_used_at) if row.last_used_at else ""


def _do(row: Any) -> SafeString:
    """The verbs of one row; what the state forbids says why."""
    parts = []
    if row.rotate_url:
        parts.append(_button(row, "Rotate", row.rotate_url))
    if row.revoke_url:
        parts.append(_button(row, "Revoke", row.revoke_url))
        if row.two_live:
            parts.append(format_html('<span class="gh-help">{}</span>', "Two are live: revoke one to rotate."))
        elif row.barred:
            parts.append(format_html('<span class="gh-help">{}</span>', "Only a superuser rotates it: it approves."))
    return format_html('<span class="gh-actions">{}</span>', format_html_join("", "{}", ((part,) for part in parts)))


def _button(row: Any, verb: str, url: str) -> SafeString:
    return format_html(
        '<a class="gh-btn gh-btn--small" data-dialog href="{}">{}<span class="gh-hidden"> {}</span></a>',
        url,
        verb,
        row,
    )


def _owner_of(row: Any) -> str:
    return str(row.identity.owner.username if row.identity else row.user.username)


@admin.register(Credential)
class CredentialAdmin(VisibleRowsAdmin):
    title = "Credentials"
    lead = "What identities and people prove themselves with. Only a fingerprint is kept; no page shows a token again."
    view_right = "nhi.view_credential"
    columns = (
        Column("Whose", _holder, lambda row: str(row.identity or row.user), "identity__name", narrow=True),
        Column(
            "Public id",
            lambda row: format_html('<code title="{}">{}</code>', row.public_id, row),
            lambda row: row.public_id,
        ),
        columns.state("State", state_badges.credential, state_of),
        columns.plain("Owner", _owner_of),
        columns.moment("Ends", lambda row: row.expires_at, sort="expires_at", form="both"),
        Column("Last used", _used, _used_at, "last_used_at"),
        columns.plain("Only from", lambda row: ", ".join(row.allowed_networks) or "anywhere"),
        Column("Do", _do, lambda _row: ""),
    )
    filters = (
        Filter("state", "State", _in_state, lambda _request: STATES),
        Filter("ends", "Ends", _ends, lambda _request: ENDS),
        Filter("age", "Age", _aged, lambda _request: AGES),
        Filter("unused", "Used", _unused, lambda _request: USES),
        Filter("owner", "Owner", _owner),
        text_filter("public_id", "Public id", "public_id__iendswith"),
    )
    search = ("identity__name__icontains", "user__username__icontains", "public_id__icontains")
    search_words = "Name or public id"
    order = ("ended", "expires_at", "id")
    presets = (
        Preset("All"),
        Preset("Live", "state=live"),
        Preset("Ends soon", "state=ends_soon"),
        Preset("Rotating", "state=rotating"),
        Preset("Not used for 90 days", "state=live&unused=90"),
    )
    bulk = (Bulk("Revoke", "nhi_credential_bulk_revoke", danger=True),)
    empty_title = "No credential yet"
    empty_words = "An agent or a service account gets one on its own page, under Credentials. It is shown once."
    empty_command = ".venv/bin/python manage.py issue_credential deploy-bot"
    empty_icon = "key_off"

    def related(self, rows: QuerySet[Any]) -> QuerySet[Any]:
        told: QuerySet[Any] = rows.select_related("identity__owner", "user").defer("digest").annotate(ended=ENDED)
        return told

    def row_url(self, row: Any) -> str:
        if row.identity is not None:
            return link("nhi_identity_credentials", row.identity.pk)
        return link("nhi_user_hub", row.user_id)

    def prepare(self, request: HttpRequest, rows: list[Any]) -> None:
        """What this person may do with each row of the page, by three queries whatever their number."""
        actor = actor_of(request)
        ids = {row.identity_id for row in rows if row.identity_id}
        live = Counter(Credential.objects.live().filter(identity__in=ids).values_list("identity_id", flat=True))
        managed = _managed(actor, ids)
        barred = set() if actor.is_superuser else rights.approver_accounts(ids)
        for row in rows:
            row.two_live = live[row.identity_id] >= MAX_LIVE
            row.barred = row.identity_id in barred
            row.rotate_url, row.revoke_url = _verbs(actor, row, row.identity_id in managed)

    def pages(self) -> list[URLPattern]:
        return revoke.URLS


def _managed(actor: Actor, ids: set[Any]) -> set[Any]:
    if actor.only_reads or not ids:
        return set()
    return set(Identity.objects.managed_by(actor).filter(pk__in=ids).values_list("pk", flat=True))


def _verbs(actor: Actor, row: Any, managed: bool) -> tuple[str, str]:
    if actor.only_reads or row.state != "live":
        return "", ""
    if row.identity is None:
        may = actor.id == row.user_id or actor.may("nhi.change_user")
        return "", link("nhi_credential_revoke", row.pk) if may else ""
    places = (row.identity_id, row.pk)
    rotates = not row.two_live and not row.barred and (managed or actor.may("nhi.issue_credential"))
    revokes = managed or actor.may("nhi.revoke_credential")
    return (
        link("nhi_identity_rotate", *places) if rotates else "",
        link("nhi_identity_revoke", *places) if revokes else "",
    )
