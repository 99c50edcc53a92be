"""Audit events as sentences, with names of their time."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db.models import TextField
from django.db.models.functions import Cast, Length
from django.utils.html import format_html
from django.utils.safestring import SafeString

from common.console import keyset
from common.console.pages import link_if_any
from nhi.actors import Actor
from nhi.audit.event_catalogue import EVENTS
from nhi.decisions.reasons import REASONS
from nhi.models import AuditEvent

#: Kinds of subject that have a page; higher apps add theirs.
HUBS = {"identity": "nhi_identity_hub", "role": "nhi_role_hub", "user": "nhi_user_hub"}


#: Whose fields are few and ours, so that their names tell what changed.
DESCRIPTIONS = frozenset({
    "identity.changed", "card.changed", "endpoint.changed", "agent.changed", "schedule.changed", "person.changed",
    "server.changed", "tool.changed", "role.changed", "grant.changed", "budget.set",
})  # fmt: skip
#: Whose roles are few enough to be said.
OF_ROLES = frozenset({"person.roles_changed", "identity.console_roles_changed"})
MOST_NAMED = 4
#: Characters of a change that a list of many reads to say what changed.
MOST_READ = 8000
#: What strangers may read of an agent is a field of its identity.
SHOWN = "{actor} let anyone read the card of {subject}"
HIDDEN = "{actor} hid the card of {subject} from strangers"


def add_hubs(hubs: dict[str, str]) -> None:
    HUBS.update(hubs)


@dataclass(frozen=True)
class Sentence:
    event: AuditEvent
    html: SafeString
    text: str


def of(event: AuditEvent) -> Sentence:
    actor = format_html("<strong>{}</strong>", event.actor_name)
    said = format_html(_template(event), actor=actor, subject=_linked(event))
    return Sentence(event, format_html("{}{}", said, _fields(event)), text(event))


def text(event: AuditEvent) -> str:
    return _template(event).format(actor=event.actor_name, subject=event.subject_name) + _fields(event)


def all_of(events: Iterable[AuditEvent]) -> list[Sentence]:
    return [of(event) for event in events]


def _template(event: AuditEvent) -> str:
    if event.event == "identity.changed" and _changed(event) == ["discoverable"]:
        return SHOWN if (event.after or {}).get("discoverable") else HIDDEN
    return EVENTS.get(event.event, "{actor} did " + event.event + " to {subject}")


def _fields(event: AuditEvent) -> str:
    """Of a description what is another now: "changed" alone tells nobody anything."""
    if event.event in OF_ROLES:
        return _roles(event)
    names = _changed(event)
    if event.event not in DESCRIPTIONS or not names or _template(event) in (SHOWN, HIDDEN):
        return ""
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return f": {', '.join(name.replace('_', ' ') for name in names[:MOST_NAMED])}{more}"


def _roles(event: AuditEvent) -> str:
    held = None if _is_unread(event) else (event.after or {}).get("roles")
    return f": now {', '.join(held) or 'none'}" if isinstance(held, list) else ""


def read_changes(events: Iterable[AuditEvent]) -> None:
    """Of a list of many, which does not read what each of them holds: what changed where a sentence says so."""
    found = {event.pk: event for event in events if event.event in DESCRIPTIONS | OF_ROLES and _is_unread(event)}
    if not found:
        return
    size = Length(Cast("before", TextField())) + Length(Cast("after", TextField()))
    small = AuditEvent.objects.filter(pk__in=found).alias(size=size).filter(size__lte=MOST_READ)
    for pk, before, after in small.values_list("pk", "before", "after"):
        found[pk].before, found[pk].after = before, after


def _is_unread(event: AuditEvent) -> bool:
    return bool({"before", "after"} & event.get_deferred_fields())


def _changed(event: AuditEvent) -> list[str]:
    if _is_unread(event):
        return []
    before, after = event.before or {}, event.after or {}
    return [name for name in after if name in before and before[name] != after[name]]


def _linked(event: AuditEvent) -> SafeString:
    page = HUBS.get(event.subject_kind)
    url = link_if_any(page, event.subject_id) if page and event.subject_id else ""
    if not url:
        return format_html("<strong>{}</strong>", event.subject_name)
    return format_html('<a href="{}">{}</a>', url, event.subject_name)


#: A refused authentication, said to who may see the credential's holder.
REFUSED = {
    "credential_unknown": "The secret did not match: the token was cut or altered.",
    "credential_revoked": "The credential was revoked.",
    "credential_expired": "The credential had ended.",
    "network_not_allowed": "The call came from a network that the credential does not allow.",
    "token_expired": "The short-lived token had ended.",
    "token_stopped": "The short-lived token was made before the identity was stopped.",
}


def refused(reason: str, caller: str) -> str:
    """The sentence, and what would make it pass."""
    known = REASONS.get(reason)
    remedy = known.remedy.format(caller=caller, target="it") if known else ""
    return f"{REFUSED.get(reason, reason)} {remedy}".strip()


def page_about(actor: Actor, subject: UUID, query: Mapping[str, str]) -> dict[str, Any]:
    """A page of what was done to one thing, as a hub's tab "Changes" draws it."""
    seen = AuditEvent.objects.visible_to(actor).about(subject)
    shown = keyset.page(seen, time="at", before=query.get("before", ""), after=query.get("after", ""))
    return {"keyset": shown, "rows": all_of(shown.rows)}
