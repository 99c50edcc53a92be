"""Heartbeats of the processes of this installation: a process without a recent one counts as gone."""

import os
import re
import socket
from dataclasses import dataclass
from datetime import datetime, timedelta

import psutil
from django.conf import settings
from django.db.models import Q
from django.utils import timezone

from nhi.models.processes import Process, ProcessKind

LATE_AFTER = timedelta(seconds=20)
FORGET_AFTER = timedelta(hours=1)
HOST = socket.gethostname()
# Read before any fork: the pool processes of a worker record heartbeats for their worker.
MAIN_PID = os.getpid()
#: Kinds whose processes serve only their own host.
PER_HOST_KINDS = [ProcessKind.STDIO_OWNER]
#: Kinds that an installation does not need.
OPTIONAL_KINDS = frozenset({ProcessKind.GRPC})
ORIGIN_PATTERN = re.compile(r"gen(?P<pid>[0-9]{1,10})@(?P<host>.{1,255})")


@dataclass(frozen=True)
class MessageOrigin:
    """The process that published a Celery message, by host and process id."""

    host: str
    pid: int


def parse_origin(text: str | None) -> MessageOrigin | None:
    """Return the process that published a Celery message, from the message's `origin` header."""
    match = ORIGIN_PATTERN.fullmatch(text or "")
    return MessageOrigin(match["host"], int(match["pid"])) if match else None


def record_heartbeat(*, kind: ProcessKind, host: str = HOST, pid: int = MAIN_PID) -> None:
    """Record a heartbeat of a process."""
    now = timezone.now()
    current = Process.objects.filter(kind=kind, host=host, pid=pid).seen_since(now - LATE_AFTER)
    if not current.update(seen_at=now):
        # A new process, or a reused process id: it starts now.
        defaults = {"version": settings.VERSION, "started_at": now, "seen_at": now}
        Process.objects.update_or_create(kind=kind, host=host, pid=pid, defaults=defaults)


def missing_kinds(now: datetime) -> list[ProcessKind]:
    """Return the kinds without a live process that serves this host."""
    serves_this_host = ~Q(kind__in=PER_HOST_KINDS) | Q(host=HOST)
    alive = set(Process.objects.seen_since(now - LATE_AFTER).filter(serves_this_host).values_list("kind", flat=True))
    return [kind for kind in ProcessKind if kind not in alive]


def count_alive(now: datetime) -> dict[ProcessKind, int]:
    """Return the number of live processes of each kind."""
    kinds = list(Process.objects.seen_since(now - LATE_AFTER).values_list("kind", flat=True))
    return {kind: kinds.count(kind) for kind in ProcessKind}


def remove_own(*, kind: ProcessKind) -> None:
    """Remove this process at an orderly shutdown."""
    Process.objects.filter(kind=kind, host=HOST, pid=MAIN_PID).delete()


def remove_silent(now: datetime) -> int:
    """Remove processes without a heartbeat for `FORGET_AFTER`."""
    return Process.objects.silent_since(now - FORGET_AFTER).delete()[0]


def remove_dead() -> int:
    """Remove this host's processes that no longer run, so that their last heartbeat does not count as alive."""
    local_processes = Process.objects.filter(host=HOST)
    dead_ids = [row.pk for row in local_processes if not psutil.pid_exists(row.pid)]
    return local_processes.filter(pk__in=dead_ids).delete()[0]
