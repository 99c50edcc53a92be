"""The worker of the queue `control`, in which the runtime of other servers does nothing but say that it is done.

`celery -A benchmarks.tasks.idle worker -Q control`. A task goes its whole way, through the broker, the lease of who
carries it and the writer, and what would be done on that way is not.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from uuid import UUID

from celery import signals

from benchmarks.tasks.words import done
from config.celery import app

if TYPE_CHECKING:
    from a2a.models import Task

__all__ = ["app"]


@signals.worker_process_init.connect
def do_nothing(**_: Any) -> None:
    """In place of the carrier that the app has set up by now."""
    from a2a import carriers
    from a2a.carriers import Carrier
    from a2a.choices import RuntimeKind

    carriers.add(RuntimeKind.REMOTE, Carrier(carry, forward_cancel))


async def carry(task_id: UUID, check: "Callable[[Task], None]") -> None:
    """`check` is asked under the lock of the row, as whoever relays a server's answer asks it."""
    from common.executors import run_in_thread

    await run_in_thread(lambda: complete(task_id, check))


async def forward_cancel(_task: Any) -> None:
    """Nobody is at it."""


def complete(task_id: UUID, check: "Callable[[Task], None]") -> None:
    from a2a import given, parts, writer
    from a2a.changes import Made, Status
    from a2a.choices import TaskState
    from a2a.models import Task

    said = given.message(Task(pk=task_id))["parts"][0]["text"]
    writer.apply_event(
        task_id, Made(parts.artifact([parts.text(done(said))])), Status(TaskState.COMPLETED), check=check
    )
