"""How the servers or tools of one page did lately: grouped sums, however many rows there are."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

from django.db.models import Count, IntegerField, Max, Q, QuerySet, Sum
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Cast
from django.utils import timezone

from mcp import rollups
from nhi.choices import CallStatus
from nhi.models import CallRollup, InvocationLog

BUCKETS = CallRollup.BUCKETS
#: Calls that reached the server; the gate's own refusals say nothing of how it does.
MADE = Q(status__in=[CallStatus.SUCCESS, CallStatus.ERROR])


@dataclass
class Numbers:
    """Calls of one server or tool."""

    calls: int = 0
    made: int = 0
    errors: int = 0
    #: To the hour once it was summed up, to the call before that.
    last: datetime | None = None
    buckets: list[int] = field(default_factory=lambda: [0] * (len(BUCKETS) + 1))

    @property
    def error_percent(self) -> float | None:
        return round(100 * self.errors / self.made, 1) if self.made else None

    @property
    def p95(self) -> str:
        """The latency bucket in which the 95th of a hundred calls ended; empty without calls."""
        wanted, seen = -(-95 * sum(self.buckets) // 100), 0
        if not wanted:
            return ""
        for upper, count in zip(BUCKETS, self.buckets, strict=False):
            seen += count
            if seen >= wanted:
                return f"≤ {_said(upper)}"
        return f"> {_said(BUCKETS[-1])}"

    def add(self, row: dict[str, Any]) -> None:
        self.calls += row["all_calls"] or 0
        self.made += row["made"] or 0
        self.errors += row["errors"] or 0
        self.last = max(filter(None, (self.last, row["last"])), default=None)
        self.buckets = [known + (row[f"b{number}"] or 0) for number, known in enumerate(self.buckets)]


def of_servers(names: Iterable[str], *, span: timedelta) -> dict[str, Numbers]:
    """By the servers' names."""
    return {key[0]: found for key, found in _of(("tool_name",), Q(tool_name__in=list(names)), span).items()}


def of_tools(tools: Iterable[tuple[str, str]], *, span: timedelta) -> dict[tuple[str, ...], Numbers]:
    """By the servers' names and the tools' own."""
    wanted = list(tools)
    where = Q(tool_name__in={server for server, _ in wanted}, method__in={name for _, name in wanted})
    return _of(("tool_name", "method"), where, span)


def _of(by: Sequence[str], where: Q, span: timedelta) -> dict[tuple[str, ...], Numbers]:
    """Closed hours from their sums, the open ones from the log; whole hours at the far end."""
    now = timezone.now()
    since = rollups.open_since(now)
    closed = CallRollup.objects.filter(where, hour__gte=rollups.hour_of(now - span), hour__lt=since)
    recent = InvocationLog.objects.filter(where, timestamp__gte=max(since, now - span))
    found: dict[tuple[str, ...], Numbers] = {}
    for row in (*_summed(closed, by), *_counted(recent, by)):
        found.setdefault(tuple(row[name] for name in by), Numbers()).add(row)
    return found


def _summed(rows: QuerySet[CallRollup], by: Sequence[str]) -> QuerySet[Any, dict[str, Any]]:
    def bucket(number: int) -> Sum:
        return Sum(Cast(KeyTextTransform(number, "buckets"), IntegerField()), filter=MADE)

    buckets = {f"b{number}": bucket(number) for number in range(len(BUCKETS) + 1)}
    summed: QuerySet[Any, dict[str, Any]] = rows.order_by().values(*by).annotate(
        all_calls=Sum("calls"), made=Sum("calls", filter=MADE),
        errors=Sum("calls", filter=Q(status=CallStatus.ERROR)), last=Max("hour"), **buckets,
    )  # fmt: skip
    return summed


def _counted(rows: QuerySet[InvocationLog], by: Sequence[str]) -> QuerySet[Any, dict[str, Any]]:
    edges = [(None, BUCKETS[0]), *pairwise(BUCKETS), (BUCKETS[-1], None)]
    buckets = {f"b{number}": Count("pk", filter=MADE & _within(*edge)) for number, edge in enumerate(edges)}
    counted: QuerySet[Any, dict[str, Any]] = rows.order_by().values(*by).annotate(
        all_calls=Count("pk"), made=Count("pk", filter=MADE),
        errors=Count("pk", filter=Q(status=CallStatus.ERROR)), last=Max("timestamp"), **buckets,
    )  # fmt: skip
    return counted


def _within(above: float | None, most: float | None) -> Q:
    low = Q() if above is None else Q(duration__gt=above)
    return low if most is None else low & Q(duration__lte=most)


def _said(milliseconds: float) -> str:
    return f"{milliseconds / 1000:g} s" if milliseconds >= 1000 else f"{milliseconds:g} ms"
