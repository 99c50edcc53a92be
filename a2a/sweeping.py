"""What the clock finds: tasks past their deadline, tasks that no worker brought back, keys that are a day old, and what
has ended and is in no tally yet."""

from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial

from django.db import transaction
from django.db.models import QuerySet
from django.db.models.functions import Now

from a2a import cancelling, dispatching, following, inbox, runtimes, sending, tallies, waiting, webhooks, writer
from a2a.changes import Status
from a2a.choices import TaskState
from a2a.models import Task
from a2a.writer import TaskEnded
from common import background
from common.db import clock
from common.errors import InvalidTransition
from nhi.choices import State
from nhi.identities import lifecycle
from nhi.models import Identity

MOST_AT_ONCE = 200


def sweep() -> None:
    for step in STEPS:
        background.run_isolated(_done, step)


def _done(step: Callable[[], object]) -> None:
    step()


def end_late() -> int:
    """End the open tasks whose deadline has passed."""
    late = _briefly(Task.objects.open().filter(deadline__lte=Now()))
    return _each_fails(late, "deadline_exceeded", "It was not done by its deadline.")


def give_up_lost() -> int:
    """End what was lent again and again, and never came back."""
    lost = Task.objects.open().filter(state=TaskState.WORKING, lease_until__lt=Now(), claims__gte=inbox.MOST_CLAIMS)
    said = f"{inbox.MOST_CLAIMS} workers took it, and none of them was heard of again."
    return _each_fails(_briefly(lost), inbox.GIVEN_UP, said)


def stop_unusable() -> int:
    """Cancel what waits for an agent that may not act, or was asked for by one that was stopped; a stop that missed it
    was in the middle of its sending."""
    usable = Identity.objects.usable().values("pk")
    stranded = _briefly(Task.objects.open().exclude(agent_id__in=usable))
    orphaned = _briefly(Task.objects.open().filter(source__isnull=False).exclude(source__state=State.ACTIVE))
    return sum(background.run_isolated(partial(_stop, who="agent"), task) for task in stranded) + sum(
        background.run_isolated(partial(_stop, who="source"), task) for task in orphaned
    )


def end_parts() -> int:
    """Cancel what is open within something that is over; a cancel that missed it was in the middle of its sending, or
    ended before it came to it."""
    over = (TaskState.CANCELED, TaskState.FAILED, TaskState.REJECTED)
    parts = _briefly(Task.objects.open().filter(parent__state__in=over))
    return sum(background.run_isolated(_end_part, task) for task in parts)


def forget() -> None:
    with transaction.atomic():
        now = clock.database_now()
        sending.forget_keys(now)
        webhooks.forget_previous(now)
        runtimes.forget_replaced()


STEPS: tuple[Callable[[], object], ...] = (
    end_late, give_up_lost, stop_unusable, end_parts, dispatching.dispatch_due, following.catch_up, waiting.settle_all,
    forget, tallies.add_up,
)  # fmt: skip


def _briefly(rows: QuerySet[Task]) -> QuerySet[Task]:
    """As much of each as its name takes: who changes one reads it whole, and anew."""
    return rows.only("pk", "agent", "source", "parent")[:MOST_AT_ONCE]


def _stop(task: Task, *, who: str) -> int:
    identity = task.agent if who == "agent" or task.source is None else task.source
    said = f"{identity.name} may not act"
    return cancelling.end(task, cancelling.STOPPED, said, why=lifecycle.why_inactive(identity))


def _end_part(task: Task) -> int:
    assert task.parent is not None  # it was found by that
    why = cancelling.why_within(task.parent)
    return cancelling.end(task, cancelling.WITH_PARENT, f"the {task.parent} is over", why=why)


def _each_fails(tasks: Iterable[Task], code: str, said: str) -> int:
    return sum(background.run_isolated(lambda task: _fail(task, code, said), task) for task in tasks)


def _fail(task: Task, code: str, said: str) -> int:
    with suppress(TaskEnded, InvalidTransition):
        writer.apply_event(task.pk, Status(TaskState.FAILED, error_code=code, error_message=said))
        cancelling.cancel_within(task, f"the {task} failed")
        return 1
    return 0
