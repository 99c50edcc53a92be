"""What the charts of runs are made of: how many ended how, by stretches of time, and how long the last ones took."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db.models import Count, QuerySet
from django.db.models.functions import TruncHour
from django.utils import timezone

from common.console.charts import HOUR, ChartRange
from common.db.clock import start_of_hour
from supervisor.choices import ExecutionStatus
from supervisor.models import Execution

#: Dots of the chart of durations.
LAST = 40


@dataclass
class Stretch:
    """One bar: runs that were asked for in it, by what came of them."""

    begins: datetime
    runs: dict[str, int] = field(default_factory=lambda: dict.fromkeys(ExecutionStatus.values, 0))

    @property
    def total(self) -> int:
        return sum(self.runs.values())


def outcomes(rows: QuerySet[Execution], chosen: ChartRange) -> list[Stretch]:
    """In the order of time; the last bar is the one that goes on."""
    step = timedelta(hours=chosen.hours)
    ends = start_of_hour(timezone.now()) + HOUR
    begins = ends - chosen.span
    bars = [Stretch(begins + number * step) for number in range(int(chosen.span / step))]
    for hour, status, runs in _counted(rows, begins):
        bar = bars[max(0, min(len(bars) - 1, int((hour - begins) / step)))]
        bar.runs[status] += runs
    return bars


def _counted(rows: QuerySet[Execution], begins: datetime) -> Iterable[tuple[Any, ...]]:
    done = rows.filter(created_at__gte=begins, status__isnull=False).order_by()
    by_hour = done.values_list(TruncHour("created_at", tzinfo=UTC), "status")
    return by_hour.annotate(runs=Count("pk"))


def last_ones(rows: QuerySet[Execution]) -> list[Execution]:
    """The last that ended by themselves or ran out of time, the oldest first."""
    ran = rows.filter(status__isnull=False, start_time__isnull=False).exclude(status=ExecutionStatus.CANCELLED)
    columns = ("agent_name", "number", "state", "status", "start_time", "end_time", "created_at", "cancel_requested_at")
    return list(reversed(ran.only(*columns).order_by("-created_at", "-id")[:LAST]))
