"""Work that Celery carries here. Each task calls a verb, and may run twice without harm."""

from celery import shared_task

from a2a import delivering, sweeping


@shared_task(name="a2a.sweep")
def sweep() -> None:
    sweeping.sweep()


@shared_task(name="a2a.deliver")
def deliver() -> None:
    """Attempts outlast this task: the worker's turn is not spent on waiting for receivers."""
    delivering.begin()
