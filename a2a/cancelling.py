"""Cancelling tasks, and with each whatever was asked for within it."""

from collections.abc import Iterable, Sequence
from uuid import UUID

from django.db import transaction
from django.db.models import Q, QuerySet

from a2a import writer
from a2a.changes import Status
from a2a.choices import TaskState
from a2a.models import Task
from a2a.writer import TaskEnded
from common.errors import NotAllowed
from nhi.actors import SYSTEM, Actor
from nhi.inputs import Problems
from nhi.models import Identity
from nhi.record import events
from nhi.registry import StopStep

RIGHT = "a2a.cancel_task"
STOPPED, WITH_PARENT = "stopped", "parent_cancelled"


def cancel(*, actor: Actor, task: Task, reason: str = "") -> Task:
    """End an open task; `TaskEnded` where it was over before."""
    if not may_cancel(actor, task):
        raise NotAllowed(f"You may not cancel the {task}.", details={"needs": RIGHT})
    problems = Problems()
    problems.reason(reason, required=False)
    problems.settle()
    with transaction.atomic():
        done = writer.apply_event(task.pk, Status(TaskState.CANCELED), cancelled_by_name=actor.name)
        events.write("task.cancelled", actor=actor, subject=done, reason=reason)
    cancel_within(done, f"the {done} was cancelled")
    return done


def may_cancel(actor: Actor, task: Task) -> bool:
    if actor.only_reads:
        return False
    if actor.may(RIGHT) or Task.objects.held_by(actor).filter(pk=task.pk).exists():
        return True
    sides = [pk for pk in (task.source_id, task.agent_id) if pk is not None]
    return Identity.objects.managed_by(actor).filter(pk__in=sides).exists()


def count(identities: Sequence[Identity]) -> int:
    return _of(identities).count()


def stop(identity: Identity) -> int:
    """The part of tasks in the kill switch: those that it works on, and those that it asked for."""
    return sum(end(task, STOPPED, f"{identity.name} was stopped") for task in _of([identity]).only("pk"))


def _of(identities: Sequence[Identity]) -> QuerySet[Task]:
    keys = [identity.pk for identity in identities]
    return Task.objects.open().filter(Q(agent_id__in=keys) | Q(source_id__in=keys))


def cancel_within(task: Task, said: str) -> None:
    for child in Task.objects.open().filter(parent=task).only("pk"):
        end(child, WITH_PARENT, said)


def within(keys: Iterable[UUID]) -> set[UUID]:
    """Open tasks that would be cancelled with these: their parts, and the parts of those."""
    known = set(keys)
    level, found = known, set[UUID]()
    while level:
        below = set(Task.objects.open().filter(parent__in=level).values_list("pk", flat=True))
        level = below - known - found
        found |= level
    return found


def end(task: Task, code: str, said: str) -> int:
    """How many this ended: none where another was quicker."""
    status = Status(TaskState.CANCELED, error_code=code, error_message=f"Cancelled, since {said}.")
    try:
        with transaction.atomic():
            done = writer.apply_event(task.pk, status, cancelled_by_name=SYSTEM.name)
            events.write("task.cancelled", actor=SYSTEM, subject=done, reason=f"{said[:1].upper()}{said[1:]}.")
    except TaskEnded:
        return 0
    cancel_within(done, f"the {done} was cancelled")
    return 1


STEP = StopStep("tasks", stop, count)
