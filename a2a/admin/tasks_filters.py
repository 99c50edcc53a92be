"""What the list of tasks can be narrowed by. A name stands for the ids that go by it, so that the indexes are used."""

from typing import Any
from urllib.parse import urlencode

from django.db.models import Q, QuerySet
from django.utils import timezone

from a2a import access
from a2a.choices import TaskState
from a2a.models import Task
from common.admin.lists import Filter, text_filter
from common.admin.pages import link
from common.ids import parse_uuid
from nhi.actors import Actor
from nhi.admin.audit_filters import SPANS
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
WAITS = (TaskState.INPUT_REQUIRED, TaskState.AUTH_REQUIRED)
WENT_WRONG = (TaskState.FAILED, TaskState.REJECTED)


def list_url(**query: str) -> str:
    """The list of tasks narrowed by this."""
    return f"{link('a2a_task_changelist')}?{urlencode(query)}"


def needs(actor: Actor) -> Q:
    """What waits for this person: all that wait for who may send any task, else what they or theirs asked for."""
    waits = Q(state__in=WAITS)
    if actor.may(access.SEND):
        return waits
    asked = Q(source_id=None, created_by_id=actor.id)
    return waits & (asked | Q(source_id__in=Identity.objects.managed_by(actor).values("pk")))


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


def by_need(rows: Rows, _value: str) -> Rows:
    """`needs_me` is known to the list, which knows who asks."""
    return rows.filter(needs_me=True)


FILTERS = (
    Filter("state", "State", by_state, lambda _request: [*GROUPS.items(), *TaskState.choices]),
    Filter("agent", "To", by_agent),
    Filter("from", "From", by_source),
    text_filter("type", "Type", "task_type"),
    Filter("parent", "Part of", by_parent),
    Filter("needs", "Needs", by_need, lambda _request: [("me", "Me")]),
    Filter("span", "Time", by_span, lambda _request: [(key, words) for key, (words, _) in SPANS.items()], empty="Any"),
)
