"""Which processes of this installation live: each is heard of every few seconds, or counts as gone."""

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
# Read before any fork: the processes of a worker's pool speak for their worker.
MAIN_PID = os.getpid()
#: One of these serves the processes of its own host only.
PER_HOST_KINDS = [ProcessKind.STDIO_OWNER]
#: An installation that does without gRPC is whole.
OPTIONAL_KINDS = frozenset({ProcessKind.GRPC})
ORIGIN_PATTERN = re.compile(r"gen(?P<pid>[0-9]{1,10})@(?P<host>.{1,255})")


@dataclass(frozen=True)
class MessageSender:
    host: str
    pid: int


def parse_origin(text: str | None) -> MessageSender | None:
    """The process that published a Celery message, as the message's `origin` header tells it."""
    match = ORIGIN_PATTERN.fullmatch(text or "")
    return MessageSender(match["host"], int(match["pid"])) if match else None


def record_heartbeat(*, kind: ProcessKind, host: str = HOST, pid: int = MAIN_PID) -> None:
    """Note that a process was heard of just now."""
    now = timezone.now()
    known = Process.objects.filter(kind=kind, host=host, pid=pid).seen_since(now - LATE_AFTER)
    if not known.update(seen_at=now):
        # New, or an old process's number come round again: its time starts here.
        facts = {"version": settings.VERSION, "started_at": now, "seen_at": now}
        Process.objects.update_or_create(kind=kind, host=host, pid=pid, defaults=facts)


def missing_kinds(now: datetime) -> list[ProcessKind]:
    """The kinds of which no process that serves this host was heard of lately."""
    useful = ~Q(kind__in=PER_HOST_KINDS) | Q(host=HOST)
    alive = set(Process.objects.seen_since(now - LATE_AFTER).filter(useful).values_list("kind", flat=True))
    return [kind for kind in ProcessKind if kind not in alive]


def count_alive(now: datetime) -> dict[ProcessKind, int]:
    """How many processes of each kind were heard of lately."""
    kinds = list(Process.objects.seen_since(now - LATE_AFTER).values_list("kind", flat=True))
    return {kind: kinds.count(kind) for kind in ProcessKind}


def remove_own(*, kind: ProcessKind) -> None:
    """This process ends in good order."""
    Process.objects.filter(kind=kind, host=HOST, pid=MAIN_PID).delete()


def remove_silent(now: datetime) -> int:
    """Drop what has been silent for long."""
    return Process.objects.silent_since(now - FORGET_AFTER).delete()[0]


def remove_dead() -> int:
    """Drop this host's processes that no longer run, so that nobody takes a dead one's last word for life."""
    here = Process.objects.filter(host=HOST)
    gone = [row.pk for row in here if not psutil.pid_exists(row.pid)]
    return here.filter(pk__in=gone).delete()[0]
