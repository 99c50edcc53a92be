"""What the list of tasks can be narrowed by. A name stands for the ids that go by it, so that the indexes are used."""

import re
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

from django.db.models import Q, QuerySet
from django.utils import timezone

from a2a.choices import TaskState
from a2a.models import Task
from a2a.models.tasks import WAITS
from common.console.lists import Filter, text_filter
from common.console.pages import link
from common.ids import parse_uuid
from nhi.actors import Actor
from nhi.console.log_filters import SPANS, time_filter
from nhi.models import Identity, User

Rows = QuerySet[Any]
OPEN, OFFERED, WAITING, WRONG = "open", "offered", "waiting", "wrong"
#: What people look for, beside the states themselves.
GROUPS = {
    OPEN: "Not done yet",
    OFFERED: "Nobody works on it",
    WAITING: "Needs input or sign-in",
    WRONG: "Failed or rejected",
}
#: How long open tasks have been so.
AGES: dict[str, tuple[str, timedelta, timedelta | None]] = {
    "1m": ("Under 1 min", timedelta(), timedelta(minutes=1)),
    "10m": ("1 to 10 min", timedelta(minutes=1), timedelta(minutes=10)),
    "1h": ("10 to 60 min", timedelta(minutes=10), timedelta(hours=1)),
    "1d": ("1 to 24 h", timedelta(hours=1), timedelta(days=1)),
    "7d": ("1 to 7 days", timedelta(days=1), timedelta(days=7)),
    "more": ("Over 7 days", timedelta(days=7), None),
}
SHORT = re.compile(r"t-?([0-9a-f]{6})", re.IGNORECASE)
WENT_WRONG = (TaskState.FAILED, TaskState.REJECTED)


def list_url(**query: str) -> str:
    """The list of tasks narrowed by this."""
    return f"{link('a2a_task_changelist')}?{urlencode(query)}"


def needs(actor: Actor) -> Q:
    """What waits for this person: what they may answer, as the page of each of them decides it."""
    return Q(pk__in=Task.objects.waiting().answerable_by(actor).values("pk"))


def by_state(rows: Rows, value: str) -> Rows:
    found: dict[str, Q] = {OPEN: Q(), WAITING: Q(state__in=WAITS), WRONG: Q(state__in=WENT_WRONG)}
    if value in (OPEN, WAITING):
        rows = rows.open()  # type: ignore[attr-defined]  # the rows are of our own queryset
    if value == OFFERED:
        return rows.filter(pk__in=Task.objects.offered().values("pk"))
    return rows.filter(found.get(value, Q(state=value)))


def by_agent(rows: Rows, value: str) -> Rows:
    return rows.filter(agent_id__in=_called(value))


def by_source(rows: Rows, value: str) -> Rows:
    """Sent in this identity's name, or by this person."""
    known = parse_uuid(value)
    people = [known] if known else User.objects.filter(username__iexact=value).values("pk")
    return rows.filter(Q(source_id__in=_called(value)) | Q(source_id=None, created_by_id__in=people))


def _called(value: str) -> Any:
    known = parse_uuid(value)
    return [known] if known else Identity.objects.filter(name=value).values("pk")


def by_parent(rows: Rows, value: str) -> Rows:
    """The parts of a task, by its id; of any other word, none."""
    return rows.filter(parent_id=known) if (known := parse_uuid(value)) else rows.none()


def by_span(rows: Rows, value: str) -> Rows:
    return rows.filter(created_at__gte=timezone.now() - SPANS[value][1])


def by_age(rows: Rows, value: str) -> Rows:
    """Open for so long: from the first of two spans up to the second."""
    least, most = AGES[value][1:]
    now = timezone.now()
    rows = rows.open().filter(created_at__lte=now - least)  # type: ignore[attr-defined]  # as above
    return rows if most is None else rows.filter(created_at__gt=now - most)


def by_id(term: str) -> Q:
    """A task's id, whole or as people read it out: `T-8f3a21`; a conversation's, a request's."""
    if known := parse_uuid(term.lower()):
        return Q(pk=known) | Q(request_id=known) | Q(context_id=str(known)) | Q(parent_id=known)
    if short := SHORT.fullmatch(term):
        return Q(pk__endswith=short[1].lower())
    return Q(pk__in=[])


def by_need(rows: Rows, _value: str) -> Rows:
    """`needs_me` is known to the list, which knows who asks."""
    return rows.filter(needs_me=True)


SEARCH = ("task_type__icontains", "agent_name__icontains", "source__name__icontains", "created_by_name__iexact", by_id)
FILTERS = (
    Filter("state", "State", by_state, lambda _request: [*GROUPS.items(), *TaskState.choices]),
    Filter("agent", "To", by_agent),
    Filter("from", "From", by_source),
    text_filter("type", "Type", "task_type"),
    Filter("parent", "Part of", by_parent),
    Filter("needs", "Needs", by_need, lambda _request: [("me", "Me")]),
    Filter("age", "Open for", by_age, lambda _request: [(key, words) for key, (words, *_) in AGES.items()]),
    Filter("span", "Time", by_span, lambda _request: [(key, words) for key, (words, _) in SPANS.items()], empty="Any"),
    Filter("since", "Sent from", time_filter("created_at__gte"), kind="datetime-local"),
    Filter("until", "Sent until", time_filter("created_at__lt"), kind="datetime-local"),
    Filter("ended_since", "Ended from", time_filter("completed_at__gte"), kind="datetime-local"),
    Filter("ended_until", "Ended until", time_filter("completed_at__lt"), kind="datetime-local"),
)
