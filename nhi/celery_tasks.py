"""Celery tasks of the app. Each takes plain values, calls one function and may run twice."""

from typing import Any

from celery import Task, shared_task
from django.utils import timezone

from nhi import process_heartbeats
from nhi.audit import refusal_limits, trigger_repair
from nhi.credentials import run_tokens
from nhi.identities import lifecycle
from nhi.models.processes import ProcessKind
from nhi.people import sessions, sign_in_throttle


@shared_task(name="nhi.tick", bind=True)
def tick(self: "Task[Any, Any]", kind: str, sender_kind: str = "") -> None:
    """Record heartbeats of the worker that runs this task and of the process that sent it."""
    process_heartbeats.record_heartbeat(kind=ProcessKind(kind))
    sender = process_heartbeats.parse_origin(self.request.origin)
    if sender and sender_kind:
        process_heartbeats.record_heartbeat(kind=ProcessKind(sender_kind), host=sender.host, pid=sender.pid)


@shared_task(name="nhi.sweep")
def sweep() -> None:
    process_heartbeats.remove_silent(timezone.now())
    lifecycle.finish_stops()
    sign_in_throttle.remove_stale(timezone.now())
    sessions.remove_expired()
    run_tokens.remove_old(timezone.now())
    refusal_limits.flush_counts()


@shared_task(name="nhi.watch_guards")
def watch_guards() -> None:
    trigger_repair.inspect_and_repair()
