"""What the list of deliveries can be narrowed by."""

from typing import Any
from urllib.parse import urlencode

from django.db.models import F, Q, QuerySet
from django.utils import timezone

from a2a.admin.tasks_filters import SHORT
from a2a.choices import DeliveryState, Trouble
from common.console import badges
from common.console.lists import Filter, text_filter
from common.console.pages import link
from common.ids import parse_uuid
from nhi.console.log_filters import SPANS, time_filter

Rows = QuerySet[Any]
DEAD, QUEUED, RETRYING, STOPPED, TRIED, UNHEARD = "dead", "queued", "retrying", "stopped", "tried", "unheard"
_pending = Q(state=DeliveryState.PENDING)
_called_off = Q(state=DeliveryState.DISABLED, reason__in=(Trouble.STOPPED, Trouble.WITHDRAWN))
_gone = Q(state=DeliveryState.DISABLED) & ~Q(reason__in=(Trouble.STOPPED, Trouble.WITHDRAWN))
STATES: dict[str, Q] = {
    QUEUED: _pending & Q(attempts=F("attempts_before")),
    RETRYING: _pending & Q(attempts__gt=F("attempts_before")),
    DeliveryState.DELIVERED: Q(state=DeliveryState.DELIVERED),
    DEAD: Q(state=DeliveryState.DEAD),
    DeliveryState.BLOCKED: Q(state=DeliveryState.BLOCKED),
    DeliveryState.DISABLED: _gone,
    STOPPED: _called_off,
    TRIED: _pending,
    UNHEARD: _gone | Q(state__in=(DeliveryState.DEAD, DeliveryState.BLOCKED)),
}
#: Several badges at once; the others are each called as theirs.
TOGETHER = {TRIED: "Still tried", UNHEARD: "Over and not delivered"}


def label(name: str) -> str:
    shown = DeliveryState.PENDING if name == QUEUED else name
    return TOGETHER.get(name) or badges.find("a2a.DeliveryState", shown).label


def list_url(**query: str) -> str:
    """The list of deliveries narrowed by this; what is empty is left out."""
    said = urlencode({name: value for name, value in query.items() if value})
    return f"{link('a2a_delivery_changelist')}?{said}" if said else link("a2a_delivery_changelist")


def by_state(rows: Rows, value: str) -> Rows:
    return rows.filter(STATES[value])


def by_endpoint(rows: Rows, value: str) -> Rows:
    """A host, with its port or without."""
    return rows.filter(Q(place=value) | Q(place__startswith=f"{value}:"))


def by_task(rows: Rows, value: str) -> Rows:
    """By its id, whole or as people read it out: `T-8f3a21`."""
    if known := parse_uuid(value):
        return rows.filter(task_id=known)
    short = SHORT.fullmatch(value)
    return rows.filter(task__id__endswith=short[1].lower()) if short else rows.none()


def by_span(rows: Rows, value: str) -> Rows:
    return rows.filter(created_at__gte=timezone.now() - SPANS[value][1])


def by_ids(term: str) -> Q:
    """A webhook's id, a delivery's or a task's."""
    if known := parse_uuid(term.lower()):
        return Q(webhook_id=known) | Q(pk=known) | Q(task_id=known)
    short = SHORT.fullmatch(term)
    return Q(task__id__endswith=short[1].lower()) if short else Q(pk__in=[])


SEARCH = ("place__icontains", "owner_name__icontains", "task__agent_name__icontains", by_ids)
FILTERS = (
    Filter("state", "State", by_state, lambda _request: [(name, label(name)) for name in STATES]),
    Filter("endpoint", "Endpoint", by_endpoint),
    text_filter("by", "Asked by", "owner_name"),
    Filter("task", "Task", by_task),
    Filter("span", "Time", by_span, lambda _request: [(key, words) for key, (words, _) in SPANS.items()], empty="Any"),
    Filter("since", "Happened from", time_filter("created_at__gte"), kind="datetime-local"),
    Filter("until", "Happened until", time_filter("created_at__lt"), kind="datetime-local"),
)  # fmt: skip
