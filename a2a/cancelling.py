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
from nhi.audit import events
from nhi.hooks import StopStep
from nhi.identities import lifecycle
from nhi.models import Identity
from nhi.validation import Problems

RIGHT = "a2a.cancel_task"
STOPPED, WITH_PARENT = "stopped", "parent_cancelled"
LONGEST_REASON = 500


def cancel(*, actor: Actor, task: Task, reason: str = "") -> Task:
    """End an open task; `TaskEnded` where it was over before."""
    if not may_cancel(actor, task):
        raise NotAllowed(f"You may not cancel the {task}.", details={"needs": RIGHT})
    problems = Problems()
    problems.check_reason(reason, required=False)
    problems.raise_if_any()
    with transaction.atomic():
        cancelled = Status(TaskState.CANCELED)
        done = writer.apply_event(task.pk, cancelled, cancelled_by_name=actor.name, cancel_reason=reason)
        events.write("task.cancelled", actor=actor, subject=done, reason=reason)
    cancel_within(done, f"the {done} was cancelled", why=why_within(done))
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
    said, why = f"{identity.name} was stopped", lifecycle.why_inactive(identity)
    return sum(end(task, STOPPED, said, why=why) for task in _of([identity]).only("pk"))


def _of(identities: Sequence[Identity]) -> QuerySet[Task]:
    keys = [identity.pk for identity in identities]
    return Task.objects.open().filter(Q(agent_id__in=keys) | Q(source_id__in=keys))


def cancel_within(task: Task, said: str, *, why: str = "") -> None:
    for child in Task.objects.open().filter(parent=task).only("pk"):
        end(child, WITH_PARENT, said, why=why)


def within(keys: Iterable[UUID]) -> set[UUID]:
    """Open tasks that would be cancelled with these: their parts, and the parts of those."""
    known = set(keys)
    level, found = known, set[UUID]()
    while level:
        below = set(Task.objects.open().filter(parent__in=level).values_list("pk", flat=True))
        level = below - known - found
        found |= level
    return found


def end(task: Task, code: str, said: str, *, why: str = "") -> int:
    """How many this ended: none where another was quicker. `why` is for the record, with who it was and their reason;
    whoever sent the task is told `said`, which names nobody."""
    reason = (why or f"{said[:1].upper()}{said[1:]}.")[:LONGEST_REASON]
    status = Status(TaskState.CANCELED, error_code=code, error_message=f"Cancelled, since {said}.")
    try:
        with transaction.atomic():
            done = writer.apply_event(task.pk, status, cancelled_by_name=SYSTEM.name, cancel_reason=reason)
            events.write("task.cancelled", actor=SYSTEM, subject=done, reason=reason)
    except TaskEnded:
        return 0
    cancel_within(done, f"the {done} was cancelled", why=why or why_within(done))
    return 1


def why_within(task: Task) -> str:
    """Of what is ended with a task that is over; nothing where nobody cancelled that."""
    if not task.cancelled_by_name:
        return ""
    reason = f": {task.cancel_reason}" if task.cancel_reason else "."
    return f"The {task} was cancelled by {task.cancelled_by_name}{reason}"


STEP = StopStep("tasks", stop, count)
