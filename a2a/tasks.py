"""Work that Celery carries here. Each task calls a verb, and may run twice without harm."""

from celery import shared_task

from a2a import sweeping


@shared_task(name="a2a.sweep")
def sweep() -> None:
    sweeping.sweep()
