"""How the servers or tools of one page did lately: grouped sums, however many rows there are."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

from django.db.models import IntegerField, Max, Q, QuerySet, Sum
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Cast
from django.utils import timezone

from common.db.clock import start_of_hour
from mcp.gateway import call_statistics
from nhi.choices import CallStatus
from nhi.models import CallRollup, InvocationLog

BUCKETS = CallRollup.BUCKETS
#: Calls that were let through, or turned away as an error: what the sums know of those that reached the server.
MADE = Q(status__in=[CallStatus.SUCCESS, CallStatus.ERROR])
ERROR = Q(status=CallStatus.ERROR)
#: Ends that count against the server, as they do for its breaker. A tool's own error is an answer; the rest is the
#: gate's doing, the caller's, or ours.
FAULTS = ("upstream", "timeout")


@dataclass
class Numbers:
    """Calls of one server or tool."""

    calls: int = 0
    #: Those that reached the server.
    made: int = 0
    #: Faults of the server among them.
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

    def without(self, *, blameless: int, turned_away: int) -> None:
        """Takes out errors that are not the server's; what a breaker or a schema turned away took no time."""
        self.errors = max(0, self.errors - blameless)
        self.made = max(0, self.made - turned_away)
        self.buckets[0] = max(0, self.buckets[0] - turned_away)


def of_servers(names: Iterable[str], *, span: timedelta) -> dict[str, Numbers]:
    """By the servers' names."""
    found = _of(("tool_name",), Q(tool_name__in=list(names)), span, faults=True)
    return {key[0]: numbers for key, numbers in found.items()}


def of_tool(server: str, tool: str, *, span: timedelta) -> Numbers:
    found = _of(("tool_name", "method"), Q(tool_name=server, method=tool), span, faults=True)
    return found.get((server, tool), Numbers())


def of_tools(tools: Iterable[tuple[str, str]], *, span: timedelta) -> dict[tuple[str, ...], Numbers]:
    """By the servers' names and the tools' own: how often and when last, and every error as one."""
    wanted = list(tools)
    where = Q(tool_name__in={server for server, _ in wanted}, method__in={name for _, name in wanted})
    return _of(("tool_name", "method"), where, span)


def _of(by: Sequence[str], where: Q, span: timedelta, *, faults: bool = False) -> dict[tuple[str, ...], Numbers]:
    """Closed hours from their sums, the open ones from the log; whole hours at the far end."""
    now = timezone.now()
    since, begins = call_statistics.find_open_since(now), now - span
    closed = CallRollup.objects.filter(where, hour__gte=start_of_hour(begins), hour__lt=since)
    recent = InvocationLog.objects.filter(where, timestamp__gte=max(since, begins))
    found: dict[tuple[str, ...], Numbers] = {}
    for row in (*_summed(closed, by), *_counted(recent, by)):
        found.setdefault(tuple(row[name] for name in by), Numbers()).add(row)
    if faults and any(numbers.errors for numbers in found.values()):
        errors = InvocationLog.objects.filter(where & ERROR, timestamp__lte=now)
        _forgive(found, errors.filter(timestamp__gte=start_of_hour(begins) if since > begins else begins), by)
    return found


def _forgive(found: dict[tuple[str, ...], Numbers], errors: QuerySet[InvocationLog], by: Sequence[str]) -> None:
    """Sums know no reasons: which errors were not the server's is read from the log: their rows of a day."""
    rows = errors.exclude(reason__in=FAULTS).order_by().values(*by)
    for row in rows.annotate(blameless=Sum("calls"), turned_away=Sum("calls", filter=Q(duration=0), default=0)):
        if numbers := found.get(tuple(row[name] for name in by)):
            numbers.without(blameless=row["blameless"], turned_away=row["turned_away"])


def _summed(rows: QuerySet[CallRollup], by: Sequence[str]) -> QuerySet[Any, dict[str, Any]]:
    def bucket(number: int) -> Sum:
        return Sum(Cast(KeyTextTransform(number, "buckets"), IntegerField()), filter=MADE)

    buckets = {f"b{number}": bucket(number) for number in range(len(BUCKETS) + 1)}
    summed: QuerySet[Any, dict[str, Any]] = rows.order_by().values(*by).annotate(
        all_calls=Sum("calls"), made=Sum("calls", filter=MADE),
        errors=Sum("calls", filter=ERROR), last=Max("hour"), **buckets,
    )  # fmt: skip
    return summed


def _counted(rows: QuerySet[InvocationLog], by: Sequence[str]) -> QuerySet[Any, dict[str, Any]]:
    edges = [(None, BUCKETS[0]), *pairwise(BUCKETS), (BUCKETS[-1], None)]
    buckets = {f"b{number}": Sum("calls", filter=MADE & _within(*edge)) for number, edge in enumerate(edges)}
    counted: QuerySet[Any, dict[str, Any]] = rows.order_by().values(*by).annotate(
        all_calls=Sum("calls"), made=Sum("calls", filter=MADE),
        errors=Sum("calls", filter=ERROR), last=Max("timestamp"), **buckets,
    )  # fmt: skip
    return counted


def _within(above: float | None, most: float | None) -> Q:
    low = Q() if above is None else Q(duration__gt=above)
    return low if most is None else low & Q(duration__lte=most)


def _said(milliseconds: float) -> str:
    return f"{milliseconds / 1000:g} s" if milliseconds >= 1000 else f"{milliseconds:g} ms"
