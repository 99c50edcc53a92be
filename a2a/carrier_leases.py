"""The leases of tasks that are carried to other servers: one process at a time, renewed, taken up when it is gone."""

from collections.abc import Sequence
from datetime import timedelta
from uuid import UUID

from django.db.models import F, Q
from django.db.models.functions import Now

from a2a import cancelling, carriers, writer
from a2a.carriers import Check, Elsewhere
from a2a.changes import Status
from a2a.choices import OPEN, RUN_HERE, RuntimeKind, TaskState
from a2a.models import Task
from a2a.models.tasks import TaskQuerySet
from a2a.writer import TaskEnded
from common.db import clock

#: Three renewals.
LEASE = timedelta(seconds=30)
PAUSE = timedelta(seconds=5)
#: From one look to the next at a task that waits for its caller: a part of the time that it has waited. Its server
#: may move on by itself, which is rare.
SHORTEST, LONGEST, PART = timedelta(minutes=1), timedelta(minutes=15), 4
#: A task at which its carrier broke down so often is given up.
MOST_BREAKDOWNS = 5
#: How a task ends whose server may still be at it.
TOLD = frozenset({TaskState.CANCELED, TaskState.FAILED})


def due() -> TaskQuerySet:
    """Those that nobody is about, or not any more; ended ones whose server has not heard of that among them."""
    kinds = set(carriers.kinds()) - RUN_HERE - {RuntimeKind.INBOX}
    free = Q(carried_until=None) | Q(carried_until__lt=Now())
    return Task.objects.due().filter(free, runtime_kind__in=kinds)


def claim(most: int, mark: UUID) -> list[Task]:
    """Take due tasks, so that nobody else does until the lease ends."""
    wanted = list(due().order_by("dispatch_at", "id").values_list("pk", flat=True)[:most])
    if not wanted:
        return []
    # Whoever asks for the same row beside us waits here, and finds it taken.
    due().filter(pk__in=wanted).update(carrier_mark=mark, carried_until=clock.database_now() + LEASE)
    return list(Task.objects.filter(pk__in=wanted, carrier_mark=mark))


def held(tasks: Sequence[UUID], mark: UUID, *, renew: bool) -> set[UUID]:
    """Which of these are open and still ours. Ended ones are ours as well, until their servers have been told."""
    mine = Task.objects.filter(pk__in=tasks, carrier_mark=mark)
    if renew:
        mine.update(carried_until=clock.database_now() + LEASE)
    return set(mine.open().values_list("pk", flat=True))


def check(mark: UUID) -> Check:
    """Whoever was held up for longer than its lease may find the task with another, and then writes nothing more.

    It is the mark that says so, and not the clock: nobody else is at a task before its mark is another.
    """

    def look(task: Task) -> None:
        if task.carrier_mark != mark:
            raise Elsewhere(f"The {task} is carried by another process by now.")

    return look


def put_down(task: Task, mark: UUID, *, broke: bool) -> None:
    """Its carrier has returned: with its end, or without, and then somebody takes it up again in a moment, or after
    longer where it waits for its caller.

    `task` is as it was claimed: breakdowns count from the last that was heard of it.
    """
    if settle(task.pk, mark):
        return
    mine = Task.objects.filter(pk=task.pk, carrier_mark=mark)
    again = clock.database_now() + (PAUSE if broke else _pause(mine))
    # One whose caller has answered meanwhile is due since then.
    mine.filter(dispatch_at=task.dispatch_at).update(dispatch_at=again)
    heard = mine.filter(last_seq__gt=task.last_seq) if broke else mine
    heard.update(breakdowns=0)
    if not mine.update(carrier_mark=None, carried_until=None, breakdowns=F("breakdowns") + int(broke)):
        return
    if Task.objects.filter(pk=task.pk, breakdowns__gte=MOST_BREAKDOWNS).exists():
        _give_up(task.pk)


def ended_by_others(task_id: UUID, mark: UUID) -> Task | None:
    """The task, if it has ended and its server may still be at it; none that another process has taken."""
    mine = Task.objects.filter(pk=task_id, carrier_mark=mark).exclude(state__in=OPEN)
    task = mine.first()
    if task is not None and task.state not in TOLD:
        settle(task_id, mark)
        return None
    return task


def settle(task_id: UUID, mark: UUID) -> bool:
    """Nothing is left to do about a task that has ended."""
    over = Task.objects.filter(pk=task_id, carrier_mark=mark).exclude(state__in=OPEN)
    return bool(over.update(dispatch_at=None, carrier_mark=None, carried_until=None))


def _pause(mine: TaskQuerySet) -> timedelta:
    since = mine.filter(state=TaskState.INPUT_REQUIRED).values_list("state_at", flat=True).first()
    return PAUSE if since is None else min(max((clock.database_now() - since) / PART, SHORTEST), LONGEST)


def _give_up(task_id: UUID) -> None:
    said = f"Gatehouse broke down {MOST_BREAKDOWNS} times while it handed this to its server."
    try:
        done = writer.apply_event(task_id, Status(TaskState.FAILED, error_code="system_error", error_message=said))
    except TaskEnded:
        return
    cancelling.cancel_within(done, f"the {done} failed")
