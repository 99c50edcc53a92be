"""Audit events as sentences, with the names at the time of the event."""

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

#: URL names of the pages of subjects, by kind. Higher apps add theirs.
SUBJECT_PAGES = {"identity": "nhi_identity_hub", "role": "nhi_role_hub", "user": "nhi_user_hub"}


#: Events whose sentence names the changed fields: they have few fields, and none from outside.
EVENTS_WITH_FIELDS = frozenset({
    "identity.changed", "card.changed", "endpoint.changed", "agent.changed", "schedule.changed", "person.changed",
    "server.changed", "tool.changed", "role.changed", "grant.changed", "budget.set",
})  # fmt: skip
#: Events whose sentence names the new roles.
EVENTS_WITH_ROLES = frozenset({"person.roles_changed", "identity.console_roles_changed"})
MAX_NAMED_FIELDS = 4
#: A list reads `before` and `after` of an event only up to this total length.
MAX_READ_CHARACTERS = 8000
#: A change of `discoverable` has its own sentences: the field decides whether anyone may read the agent's card.
CARD_SHOWN = "{actor} let anyone read the card of {subject}"
CARD_HIDDEN = "{actor} hid the card of {subject} from strangers"


def add_subject_pages(page_names: dict[str, str]) -> None:
    SUBJECT_PAGES.update(page_names)


@dataclass(frozen=True)
class EventSentence:
    """An audit event as a sentence, in HTML with links and in plain text."""

    event: AuditEvent
    html: SafeString
    text: str


def event_sentence(event: AuditEvent) -> EventSentence:
    actor = format_html("<strong>{}</strong>", event.actor_name)
    sentence_html = format_html(_sentence_template(event), actor=actor, subject=_subject_link(event))
    return EventSentence(event, format_html("{}{}", sentence_html, _changed_fields_text(event)), event_text(event))


def event_text(event: AuditEvent) -> str:
    return _sentence_template(event).format(actor=event.actor_name, subject=event.subject_name) + _changed_fields_text(
        event
    )


def event_sentences(events: Iterable[AuditEvent]) -> list[EventSentence]:
    return [event_sentence(event) for event in events]


def _sentence_template(event: AuditEvent) -> str:
    if event.event == "identity.changed" and _changed_fields(event) == ["discoverable"]:
        return CARD_SHOWN if (event.after or {}).get("discoverable") else CARD_HIDDEN
    return EVENTS.get(event.event, "{actor} did " + event.event + " to {subject}")


def _changed_fields_text(event: AuditEvent) -> str:
    """Return the end of the sentence that names the changed fields or roles, or an empty string."""
    if event.event in EVENTS_WITH_ROLES:
        return _roles_text(event)
    names = _changed_fields(event)
    if event.event not in EVENTS_WITH_FIELDS or not names or _sentence_template(event) in (CARD_SHOWN, CARD_HIDDEN):
        return ""
    more = f" and {len(names) - MAX_NAMED_FIELDS} more" if len(names) > MAX_NAMED_FIELDS else ""
    return f": {', '.join(name.replace('_', ' ') for name in names[:MAX_NAMED_FIELDS])}{more}"


def _roles_text(event: AuditEvent) -> str:
    roles = None if _is_unread(event) else (event.after or {}).get("roles")
    return f": now {', '.join(roles) or 'none'}" if isinstance(roles, list) else ""


def read_changes(events: Iterable[AuditEvent]) -> None:
    """Load `before` and `after` of listed events that were queried without them, if their sentence needs them."""
    unread = {
        event.pk: event
        for event in events
        if event.event in EVENTS_WITH_FIELDS | EVENTS_WITH_ROLES and _is_unread(event)
    }
    if not unread:
        return
    size = Length(Cast("before", TextField())) + Length(Cast("after", TextField()))
    small = AuditEvent.objects.filter(pk__in=unread).alias(size=size).filter(size__lte=MAX_READ_CHARACTERS)
    for pk, before, after in small.values_list("pk", "before", "after"):
        unread[pk].before, unread[pk].after = before, after


def _is_unread(event: AuditEvent) -> bool:
    return bool({"before", "after"} & event.get_deferred_fields())


def _changed_fields(event: AuditEvent) -> list[str]:
    if _is_unread(event):
        return []
    before, after = event.before or {}, event.after or {}
    return [name for name in after if name in before and before[name] != after[name]]


def _subject_link(event: AuditEvent) -> SafeString:
    page = SUBJECT_PAGES.get(event.subject_kind)
    url = link_if_any(page, event.subject_id) if page and event.subject_id else ""
    if not url:
        return format_html("<strong>{}</strong>", event.subject_name)
    return format_html('<a href="{}">{}</a>', url, event.subject_name)


#: Sentences for refused authentications, shown to people who may see the credential's holder.
REFUSAL_SENTENCES = {
    "credential_unknown": "The secret did not match: the token was cut or altered.",
    "credential_revoked": "The credential was revoked.",
    "credential_expired": "The credential had ended.",
    "network_not_allowed": "The call came from a network that the credential does not allow.",
    "token_expired": "The short-lived token had ended.",
    "token_stopped": "The short-lived token was made before the identity was stopped.",
}


def refusal_sentence(reason: str, caller: str) -> str:
    """Return the sentence for a refusal and its remedy."""
    decision_reason = REASONS.get(reason)
    remedy = decision_reason.remedy.format(caller=caller, target="it") if decision_reason else ""
    return f"{REFUSAL_SENTENCES.get(reason, reason)} {remedy}".strip()


def changes_page(actor: Actor, subject: UUID, query: Mapping[str, str]) -> dict[str, Any]:
    """Return a page of the events about one subject, as context of the "Changes" tab."""
    events = AuditEvent.objects.visible_to(actor).about(subject)
    page = keyset.page(events, time="at", before=query.get("before", ""), after=query.get("after", ""))
    return {"keyset": page, "rows": event_sentences(page.rows)}
