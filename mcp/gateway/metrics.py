"""Statistics of a server or a tool: counts from the hourly sums and the log, latency from the last 100 calls."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Q, Sum

from common.db import clock
from mcp.gateway import rollups
from mcp.models import Call, Server, Tool
from nhi.choices import CallStatus
from nhi.models import CallRollup, InvocationLog

LATENCY_SAMPLE_SIZE = 100


@dataclass(frozen=True)
class CallStatistics:
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
    since = rollups.find_open_since(clock.database_now())
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
