"""Hourly sums of the invocation log. Closed hours are summed once; open hours are read from the log."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import transaction

from common.db import clock
from common.db.clock import start_of_hour
from nhi.models import CallRollup, InvocationLog

HOUR = timedelta(hours=1)
#: A row is written when its call ends, but carries the time at which the call began. Hours close after this delay.
SETTLE_DELAY = timedelta(minutes=20)
#: Hours that one run sums at most, when the installation was down for long.
MAX_HOURS = 48


@dataclass
class CallSum:
    """Sum of the calls of one agent, tool and status."""

    agent_name: str = ""
    calls: int = 0
    duration: float = 0.0
    buckets: list[int] = field(default_factory=lambda: [0] * (len(CallRollup.BUCKETS) + 1))

    def add(self, name: str, duration: float, calls: int) -> None:
        """Add one row of the log: a single call, or a number of refused calls that were only counted."""
        self.agent_name = name
        self.calls += calls
        self.duration += duration * calls
        self.buckets[bisect_left(CallRollup.BUCKETS, duration)] += calls


CallSumKey = tuple[UUID, str, str, str]


def roll_up() -> int:
    """Sum every closed hour with calls that is not summed yet. Repeated and concurrent runs are harmless."""
    now = clock.database_now()
    last, done = _last_hour(), 0
    hour = _first_hour_with_calls(None if last is None else last + HOUR)
    while hour is not None and hour + HOUR + SETTLE_DELAY <= now and done < MAX_HOURS:
        _sum_hour(hour)
        hour, done = _first_hour_with_calls(hour + HOUR), done + 1
    return done


def find_open_since(now: datetime) -> datetime:
    """Return the time from which on calls are read from the log instead of the sums."""
    last, earliest = _last_hour(), start_of_hour(now - SETTLE_DELAY - HOUR)
    first = _first_hour_with_calls(None) if last is None else last + HOUR
    return earliest if first is None else min(first, earliest)


def sum_rows(rows: Iterable[tuple[Any, ...]]) -> dict[CallSumKey, CallSum]:
    """Sum (agent id, agent name, server, tool, status, duration, calls) rows by the key of a roll-up row."""
    sums: dict[CallSumKey, CallSum] = defaultdict(CallSum)
    for agent_id, agent_name, server, tool, status, duration, calls in rows:
        sums[agent_id, server, tool, status].add(agent_name, duration, calls)
    return sums


def _last_hour() -> datetime | None:
    return CallRollup.objects.order_by("-hour").values_list("hour", flat=True).first()


def _first_hour_with_calls(since: datetime | None) -> datetime | None:
    """Return the first hour with calls from `since` on. Hours without calls have no sums, so they are skipped."""
    rows = InvocationLog.objects.all() if since is None else InvocationLog.objects.filter(timestamp__gte=since)
    oldest = rows.order_by("timestamp", "id").values_list("timestamp", flat=True).first()
    return None if oldest is None else start_of_hour(oldest)


def _sum_hour(hour: datetime) -> None:
    rows = InvocationLog.objects.filter(timestamp__gte=hour, timestamp__lt=hour + HOUR)
    columns = ("agent_id", "agent_name", "tool_name", "method", "status", "duration", "calls")
    sums = sum_rows(rows.order_by().values_list(*columns).iterator(chunk_size=5000))
    with transaction.atomic():
        CallRollup.objects.bulk_create(
            [
                CallRollup(
                    hour=hour, agent_id=agent_id, agent_name=call_sum.agent_name, tool_name=server, method=tool,
                    status=status, calls=call_sum.calls, duration_sum=call_sum.duration, buckets=call_sum.buckets,
                )
                for (agent_id, server, tool, status), call_sum in sums.items()
            ],
            ignore_conflicts=True,
            batch_size=500,
        )  # fmt: skip
