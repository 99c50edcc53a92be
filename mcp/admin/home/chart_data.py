"""What the charts are made of: closed hours from their sums, the open ones from the log by time. A query each."""

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

from django.db.models import CharField, F, IntegerField, Max, Q, QuerySet, Sum, Value
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Cast, TruncHour
from django.utils import timezone

from common.console.charts import HOUR, ChartRange
from common.db.clock import start_of_hour
from mcp.gateway import call_statistics
from nhi.actors import Actor
from nhi.choices import CallStatus
from nhi.models import CallRollup, Identity, InvocationLog

BUCKETS = CallRollup.BUCKETS
#: Calls that reached their server: the gate's own refusals say nothing of how fast it is.
MADE = Q(status__in=[CallStatus.SUCCESS, CallStatus.ERROR])
#: Of more refusals than this the newest are looked at.
MOST_REFUSALS = 10_000


@dataclass
class Hour:
    """One bar: calls by status, and those made by latency."""

    begins: datetime
    calls: dict[str, int] = field(default_factory=lambda: dict.fromkeys(CallStatus.values, 0))
    buckets: list[int] = field(default_factory=lambda: [0] * (len(BUCKETS) + 1))

    @property
    def total(self) -> int:
        return sum(self.calls.values())

    def quantile(self, share: float) -> float | None:
        return quantile(self.buckets, share)


class Source:
    """The roll-up and the log of one range, as far as this person sees them."""

    def __init__(self, actor: Actor, chosen: ChartRange) -> None:
        now = timezone.now()
        self.range = chosen
        #: Whole hours: the first bar is as long as the others.
        self.begins = start_of_hour(now) - chosen.span + HOUR
        self.ends = start_of_hour(now) + HOUR
        self.opens = max(call_statistics.find_open_since(now), self.begins)
        own = Q(agent_id__in=Identity.objects.managed_by(actor).values("pk"))
        self._of = Q() if actor.may("nhi.view_invocationlog") else own

    @property
    def closed(self) -> QuerySet[CallRollup]:
        return CallRollup.objects.filter(self._of, hour__gte=self.begins, hour__lt=self.opens).order_by()

    @property
    def open(self) -> QuerySet[InvocationLog]:
        return InvocationLog.objects.filter(self._of, timestamp__gte=self.opens).order_by()

    def last(self) -> datetime | None:
        """When the newest call of all began, however long ago: why there are no bars."""
        newest: datetime | None = InvocationLog.objects.filter(self._of).order_by().aggregate(at=Max("timestamp"))["at"]
        return newest

    def bars(self) -> list[Hour]:
        """Calls by status and latency, in the order of time."""
        step = timedelta(hours=self.range.hours)
        starts = [self.begins + number * step for number in range(int((self.ends - self.begins) / step))]
        bars = [Hour(begins) for begins in starts]
        for hour, status, calls, *buckets in self._by_hour():
            bar = bars[min(len(bars) - 1, int((hour - self.begins) / step))]
            bar.calls[status] += calls
            bar.buckets = [had + (more or 0) for had, more in zip(bar.buckets, buckets, strict=True)]
        return bars

    def _by_hour(self) -> Iterable[tuple[Any, ...]]:
        closed = self.closed.values_list(F("hour"), "status").annotate(all=Sum("calls"), **_summed())
        recent = self.open.values_list(TruncHour("timestamp", tzinfo=UTC), "status").annotate(
            all=Sum("calls"), **_counted()
        )
        return closed.union(recent, all=True)

    def tops(self) -> tuple[dict[str, dict[str, int]], dict[str, dict[str, int]]]:
        """Calls by status for each agent, and for each tool, in one statement."""
        parts = []
        for what, name in (("agent", F("agent_name")), ("tool", F("method"))):
            server: Any = F("tool_name") if what == "tool" else Value("", output_field=CharField())
            label = Value(what, output_field=CharField())
            for rows, calls in ((self.closed, Sum("calls")), (self.open, Sum("calls"))):
                named = rows.annotate(what=label, server=server, name=name)
                parts.append(named.values_list("what", "server", "name", "status").annotate(all=calls))
        found: dict[str, dict[str, dict[str, int]]] = {"agent": {}, "tool": {}}
        for what, server, name, status, calls in parts[0].union(*parts[1:], all=True):
            counts = found[what].setdefault(f"{server}.{name}" if server else name, {})
            counts[status] = counts.get(status, 0) + calls
        return found["agent"], found["tool"]

    def reasons(self) -> list[tuple[str, str, int]]:
        """Why calls were refused: sums know no reasons, so the newest refusals are read by the index of outcomes."""
        refused = [CallStatus.PERMISSION_DENIED, CallStatus.RATE_LIMITED]
        newest = (
            InvocationLog.objects.filter(self._of, status__in=refused, timestamp__gte=self.begins)
            .order_by("-timestamp").values("pk")[:MOST_REFUSALS]
        )  # fmt: skip
        rows = InvocationLog.objects.filter(pk__in=newest).order_by().values_list("status", "reason")
        return sorted(rows.annotate(all=Sum("calls")), key=lambda row: (-row[2], row[1]))


def _summed() -> dict[str, Any]:
    return {f"b{number}": Sum(_stored(number), filter=MADE) for number in range(len(BUCKETS) + 1)}


def _stored(number: int) -> Cast:
    return Cast(KeyTextTransform(number, "buckets"), IntegerField())


def _counted() -> dict[str, Any]:
    edges = [(None, BUCKETS[0]), *pairwise(BUCKETS), (BUCKETS[-1], None)]
    return {f"b{number}": Sum("calls", filter=MADE & _within(*edge)) for number, edge in enumerate(edges)}


def _within(above: float | None, most: float | None) -> Q:
    low = Q() if above is None else Q(duration__gt=above)
    return low if most is None else low & Q(duration__lte=most)


def quantile(buckets: list[int], share: float) -> float | None:
    """Where in its latency class so much of the calls has ended, taken as spread evenly in it; None without calls."""
    total = sum(buckets)
    if not total:
        return None
    sums = [sum(buckets[: number + 1]) for number in range(len(buckets))]
    at = bisect_left(sums, share * total)
    if at >= len(BUCKETS):
        return float(BUCKETS[-1])
    low = float(BUCKETS[at - 1]) if at else 0.0
    into = (share * total - (sums[at] - buckets[at])) / buckets[at] if buckets[at] else 1.0
    return round(low + into * (BUCKETS[at] - low), 1)
