"""What the clock finds: tasks past their deadline, tasks that no worker brought back, and keys that are a day old."""

from contextlib import suppress

from django.db import transaction
from django.db.models.functions import Now

from a2a import cancelling, dispatching, following, inbox, runtimes, sending, waiting, webhooks, writer
from a2a.choices import TaskState
from a2a.models import Task
from a2a.writer import Status, TaskEnded
from common import clock
from common.errors import InvalidTransition
from nhi.models import Identity

MOST_AT_ONCE = 200


def sweep() -> None:
    end_late()
    give_up_lost()
    stop_unusable()
    dispatching.dispatch_due()
    following.catch_up()
    waiting.settle_all()
    with transaction.atomic():
        now = clock.database_now()
        sending.forget_keys(now)
        webhooks.forget_previous(now)
        runtimes.forget_replaced()


def end_late() -> int:
    """End the open tasks whose deadline has passed."""
    late = Task.objects.open().filter(deadline__lte=Now())[:MOST_AT_ONCE]
    return sum(_fail(task, "deadline_exceeded", "It was not done by its deadline.") for task in late)


def give_up_lost() -> int:
    """End what was lent again and again, and never came back."""
    lost = Task.objects.open().filter(state=TaskState.WORKING, lease_until__lt=Now(), claims__gte=inbox.MOST_CLAIMS)
    said = f"{inbox.MOST_CLAIMS} workers took it, and none of them was heard of again."
    return sum(_fail(task, inbox.GIVEN_UP, said) for task in lost[:MOST_AT_ONCE])


def stop_unusable() -> int:
    """Cancel what waits for an agent that may not act; a stop that missed it was in the middle of its sending."""
    usable = Identity.objects.usable().values("pk")
    stranded = Task.objects.open().exclude(agent_id__in=usable).select_related("agent")[:MOST_AT_ONCE]
    return sum(cancelling.end(task, cancelling.STOPPED, f"{task.agent.name} may not act") for task in stranded)


def _fail(task: Task, code: str, said: str) -> int:
    with suppress(TaskEnded, InvalidTransition):
        writer.apply_event(task.pk, Status(TaskState.FAILED, error_code=code, error_message=said))
        cancelling.cancel_within(task, f"the {task} failed")
        return 1
    return 0
