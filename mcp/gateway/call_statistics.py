"""Hourly sums of calls, and the statistics of a server or a tool."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import Q, Sum

from common.db import clock
from common.db.clock import start_of_hour
from mcp.models import Call, Server, Tool
from nhi.choices import CallStatus
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


LATENCY_SAMPLE_SIZE = 100


@dataclass(frozen=True)
class CallStatistics:
    """Numbers of all calls of a server or a tool, and the latency of its latest calls."""

    handshake_latency_ms: float | None
    invocation_count: int
    success_count: int
    error_count: int
    last_invocation_time: datetime | None
    average_latency_ms: float | None
    p95_ms: float | None
    in_flight: int


def load_server_statistics(server: Server) -> CallStatistics:
    return _load_statistics(
        Q(tool_name=server.name), Call.objects.filter(server_id=server.pk), server.handshake_latency_ms
    )


def load_tool_statistics(tool: Tool) -> CallStatistics:
    condition = Q(tool_name=tool.server.name, method=tool.name)
    return _load_statistics(condition, Call.objects.filter(tool_id=tool.pk), tool.server.handshake_latency_ms)


def _load_statistics(condition: Q, active_calls: Any, handshake_latency_ms: float | None) -> CallStatistics:
    since = find_open_since(clock.database_now())
    counts = dict.fromkeys(CallStatus.values, 0)
    summed = (
        CallRollup.objects.filter(condition, hour__lt=since).order_by().values_list("status").annotate(Sum("calls"))
    )
    recent = InvocationLog.objects.filter(condition, timestamp__gte=since).order_by().values_list("status")
    for status, calls in [*summed, *recent.annotate(Sum("calls"))]:
        counts[status] += calls
    # Calls that a breaker or a schema refused have no duration, and say nothing about the server.
    latency_rows = list(
        InvocationLog.objects.filter(condition, status__in=[CallStatus.SUCCESS, CallStatus.ERROR], duration__gt=0)
        .order_by("-timestamp", "-id").values_list("timestamp", "duration")[:LATENCY_SAMPLE_SIZE]
    )  # fmt: skip
    durations = sorted(duration for _, duration in latency_rows)
    return CallStatistics(
        handshake_latency_ms=handshake_latency_ms,
        invocation_count=sum(counts.values()),
        success_count=counts[CallStatus.SUCCESS],
        error_count=counts[CallStatus.ERROR],
        last_invocation_time=latency_rows[0][0] if latency_rows else None,
        average_latency_ms=round(sum(durations) / len(durations), 3) if durations else None,
        p95_ms=round(durations[max(0, -(-95 * len(durations) // 100) - 1)], 3) if durations else None,
        in_flight=active_calls.count(),
    )
