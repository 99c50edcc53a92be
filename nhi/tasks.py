"""Work that Celery carries here. Each task takes plain values, calls a verb, and may run twice without harm."""

from typing import Any

from celery import Task, shared_task
from django.utils import timezone

from nhi import processes
from nhi.models.processes import ProcessKind


@shared_task(name="nhi.tick", bind=True)
def tick(self: "Task[Any, Any]", kind: str) -> None:
    """A beat's tick has arrived at a worker: both live, and so does the broker between them."""
    processes.seen(kind=ProcessKind(kind))
    sender = processes.origin(self.request.origin)
    if sender and kind == ProcessKind.WORKER_CONTROL:
        processes.seen(kind=ProcessKind.BEAT, host=sender.host, pid=sender.pid)


@shared_task(name="nhi.sweep")
def sweep() -> None:
    processes.forget(timezone.now())
