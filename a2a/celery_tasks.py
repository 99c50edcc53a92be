"""Work that Celery carries here. Each task calls a verb, and may run twice without harm."""

from uuid import UUID

from celery import shared_task

from a2a import carrying, delivering, dispatching, sweeping


@shared_task(name="a2a.sweep")
def sweep() -> None:
    sweeping.sweep()


@shared_task(name="a2a.end_late")
def end_late() -> None:
    """Looked for more often than the rest: somebody said when."""
    sweeping.end_late()


@shared_task(name="a2a.deliver")
def deliver() -> None:
    """Attempts outlast this task: the worker's turn is not spent on waiting for receivers."""
    delivering.begin()


@shared_task(name="a2a.dispatch")
def dispatch(agent_id: str) -> None:
    """Tasks wait for an agent that runs here."""
    dispatching.dispatch(UUID(agent_id))


@shared_task(name="a2a.dispatch_due")
def dispatch_due() -> None:
    """Whatever waits, of all agents."""
    dispatching.dispatch_due()


@shared_task(name="a2a.carry")
def carry() -> None:
    """What is carried to other servers goes on when this task has ended."""
    carrying.begin()
