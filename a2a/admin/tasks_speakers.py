"""Who said what the caller's side says in a task: a message has no name, the record of the answer has."""

from typing import Any
from uuid import UUID

from django.db.models import QuerySet

from a2a.choices import EventKind, Role
from a2a.models import Task, TaskEvent, TaskMessage
from nhi.models import AuditEvent


def of_task(task: Task) -> str:
    """Who sent it."""
    for_another = task.source is not None and task.source_id != task.created_by_id
    return _named(task.created_by_name, task.source.name if for_another and task.source else "")


def of_events(task: Task, events: list[TaskEvent]) -> dict[int, str]:
    """By the numbers of those that are messages, of a stretch of the task's events."""
    asked = [event.seq for event in events if event.kind == EventKind.MESSAGE]
    if not asked:
        return {}
    before = task.events.filter(kind=EventKind.MESSAGE, seq__lt=asked[0]) if events[0].seq > 1 else None
    return dict(zip(asked, _answers(task.pk, before, len(asked)), strict=False))


def of_messages(task: Task, messages: list[TaskMessage]) -> dict[int, str]:
    """By the places of those that the caller's side said, of a stretch of what was said; the first sent the task."""
    asked = [message.position for message in messages if message.role == Role.USER and message.position > 1]
    found = {1: of_task(task)}
    if asked:
        first = messages[0].position
        before = task.messages.filter(role=Role.USER, position__gt=1, position__lt=asked[0]) if first > 1 else None
        found |= zip(asked, _answers(task.pk, before, len(asked)), strict=False)
    return found


def _answers(task: UUID, before: QuerySet[Any] | None, many: int) -> list[str]:
    """Each answer is one message and one line of the record, written together under the lock of the task."""
    first = before.count() if before is not None else 0
    rows = AuditEvent.objects.filter(subject_id=task, event="task.answered").order_by("at", "id")
    said = rows.values_list("actor_name", "details__in_the_name_of")[first : first + many]
    return [_named(name, for_whom) for name, for_whom in said]


def _named(name: str, for_whom: str | None) -> str:
    return f"{name}, in the name of {for_whom}" if for_whom else name
