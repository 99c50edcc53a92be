"""Work that Celery carries here. Each task takes plain values, calls a verb, and may run twice without harm."""

from typing import Any

from celery import Task, shared_task
from django.utils import timezone

from nhi import lifecycle, processes, run_tokens, sessions, sign_in_guard
from nhi.models.processes import ProcessKind
from nhi.record import guard_watch, refusal_counts


@shared_task(name="nhi.tick", bind=True)
def tick(self: "Task[Any, Any]", kind: str, sender_kind: str = "") -> None:
    """A tick has arrived at a worker: it lives, and so do the broker and whoever sent it with its kind."""
    processes.seen(kind=ProcessKind(kind))
    sender = processes.origin(self.request.origin)
    if sender and sender_kind:
        processes.seen(kind=ProcessKind(sender_kind), host=sender.host, pid=sender.pid)


@shared_task(name="nhi.sweep")
def sweep() -> None:
    processes.forget(timezone.now())
    lifecycle.finish_stops()
    sign_in_guard.forget(timezone.now())
    sessions.forget()
    run_tokens.forget(timezone.now())
    refusal_counts.flush()


@shared_task(name="nhi.watch_guards")
def watch_guards() -> None:
    guard_watch.watch()
