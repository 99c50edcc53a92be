"""The invocation log summed by hour. Closed hours are summed once; the open ones are read from the log by time."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import transaction

from common.db import clock
from nhi.models import CallRollup, InvocationLog

HOUR = timedelta(hours=1)
#: A row is written when its call ends, under the time at which it began.
SETTLED = timedelta(minutes=20)
#: How many hours an installation that was off catches up with in one go.
MOST_HOURS = 48


@dataclass
class Sum:
    """Calls of one agent, tool and status."""

    agent_name: str = ""
    calls: int = 0
    duration: float = 0.0
    buckets: list[int] = field(default_factory=lambda: [0] * (len(CallRollup.BUCKETS) + 1))

    def add(self, name: str, duration: float, calls: int) -> None:
        """A row of the log: one call, or refused ones that were counted."""
        self.agent_name = name
        self.calls += calls
        self.duration += duration * calls
        self.buckets[bisect_left(CallRollup.BUCKETS, duration)] += calls


Key = tuple[UUID, str, str, str]


def hour_of(moment: datetime) -> datetime:
    return moment.replace(minute=0, second=0, microsecond=0)


def roll_up() -> int:
    """Sum every closed hour with calls that was not summed yet. Running it twice, or at two places, is harmless."""
    now = clock.database_now()
    last, done = _last(), 0
    hour = _with_calls(None if last is None else last + HOUR)
    while hour is not None and hour + HOUR + SETTLED <= now and done < MOST_HOURS:
        _sum_hour(hour)
        hour, done = _with_calls(hour + HOUR), done + 1
    return done


def open_since(now: datetime) -> datetime:
    """From here on the log itself is read."""
    last, earliest = _last(), hour_of(now - SETTLED - HOUR)
    first = _with_calls(None) if last is None else last + HOUR
    return earliest if first is None else min(first, earliest)


def sums(rows: Iterable[tuple[Any, ...]]) -> dict[Key, Sum]:
    """(agent id, agent name, server, tool, status, duration, calls) by what makes a roll-up's row."""
    found: dict[Key, Sum] = defaultdict(Sum)
    for agent_id, agent_name, server, tool, status, duration, calls in rows:
        found[agent_id, server, tool, status].add(agent_name, duration, calls)
    return found


def _last() -> datetime | None:
    return CallRollup.objects.order_by("-hour").values_list("hour", flat=True).first()


def _with_calls(since: datetime | None) -> datetime | None:
    """The first hour in which there were calls: hours without any leave no sums to go on from."""
    rows = InvocationLog.objects.all() if since is None else InvocationLog.objects.filter(timestamp__gte=since)
    oldest = rows.order_by("timestamp", "id").values_list("timestamp", flat=True).first()
    return None if oldest is None else hour_of(oldest)


def _sum_hour(hour: datetime) -> None:
    rows = InvocationLog.objects.filter(timestamp__gte=hour, timestamp__lt=hour + HOUR)
    columns = ("agent_id", "agent_name", "tool_name", "method", "status", "duration", "calls")
    found = sums(rows.order_by().values_list(*columns).iterator(chunk_size=5000))
    with transaction.atomic():
        CallRollup.objects.bulk_create(
            [
                CallRollup(
                    hour=hour, agent_id=agent_id, agent_name=one.agent_name, tool_name=server, method=tool,
                    status=status, calls=one.calls, duration_sum=one.duration, buckets=one.buckets,
                )
                for (agent_id, server, tool, status), one in found.items()
            ],
            ignore_conflicts=True,
            batch_size=500,
        )  # fmt: skip
