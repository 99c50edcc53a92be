"""What the charts of tasks are made of: how many were sent and ended, how old the open ones are, who was told."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db.models import Count, Q, QuerySet
from django.db.models.functions import TruncHour
from django.utils import timezone

from a2a.admin.deliveries_filters import STATES, STOPPED
from a2a.admin.tasks_filters import AGES, WENT_WRONG
from a2a.choices import DeliveryState, TaskState
from a2a.models.tasks import WAITS
from common.console.charts import HOUR, ChartRange
from common.db.clock import start_of_hour

#: What may have come of a delivery, as bars are stacked.
HEARD, TRYING, OVER, CALLED_OFF = "delivered", "trying", "over", "called_off"


class Hour(TruncHour):
    """The hour of a moment in UTC, on SQLite by its text: Django's own way asks Python about every row."""

    def __init__(self, name: str) -> None:
        super().__init__(name, tzinfo=UTC)

    def as_sqlite(self, compiler: Any, connection: Any, **_extra: Any) -> tuple[str, Any]:
        said, params = compiler.compile(self.lhs)
        return f"SUBSTR({said}, 1, 13) || ':00:00'", params


@dataclass
class Stretch:
    """Counts of one stretch of time, by what is counted."""

    begins: datetime
    counts: dict[str, int] = field(default_factory=dict)

    def add(self, what: str, count: int) -> None:
        self.counts[what] = self.counts.get(what, 0) + count

    def of(self, what: str) -> int:
        return self.counts.get(what, 0)


@dataclass
class Span:
    """The stretches of a range, in the order of time; the last is the one that goes on."""

    chosen: ChartRange

    def __post_init__(self) -> None:
        self.step = timedelta(hours=self.chosen.hours)
        self.begins = start_of_hour(timezone.now()) + HOUR - self.chosen.span
        count = int(self.chosen.span / self.step)
        self.stretches = [Stretch(self.begins + number * self.step) for number in range(count)]

    def at(self, moment: datetime) -> Stretch:
        number = int((moment - self.begins) / self.step)
        return self.stretches[max(0, min(len(self.stretches) - 1, number))]


def flow(rows: QuerySet[Any], chosen: ChartRange) -> list[Stretch]:
    """Of the tasks that were sent in the range: when, and when they ended how. One walk of the time's index."""
    span = Span(chosen)
    sent = rows.filter(created_at__gte=span.begins).order_by()
    grouped = sent.values_list(
        Hour("created_at"), Hour("completed_at"), "state"
    ).annotate(count=Count("pk"))  # fmt: skip
    for asked, ended, state, count in grouped:
        span.at(asked).add("sent", count)
        if ended is None:
            span.at(asked).add("open", count)
        else:
            span.at(ended).add(_outcome(state), count)
    return span.stretches


def _outcome(state: str) -> str:
    if state == TaskState.COMPLETED:
        return "completed"
    return "failed" if state in WENT_WRONG else "cancelled"


def ages(rows: QuerySet[Any]) -> dict[str, dict[str, int]]:
    """Of the open tasks by how long they are so: how many nobody has, are worked on, wait for their caller."""
    now = timezone.now()
    standing = {
        "new": Q(state=TaskState.SUBMITTED), "working": Q(state=TaskState.WORKING), "waiting": Q(state__in=WAITS)
    }  # fmt: skip
    wanted = {
        f"{age}_{name}": Count("pk", filter=_aged(now, least, most) & one)
        for age, (_, least, most) in AGES.items()
        for name, one in standing.items()
    }
    found = rows.open().order_by().aggregate(**wanted)  # type: ignore[attr-defined]  # the rows are of our own queryset
    return {age: {name: found[f"{age}_{name}"] for name in standing} for age in AGES}


def _aged(now: datetime, least: timedelta, most: timedelta | None) -> Q:
    known = Q(created_at__lte=now - least)
    return known if most is None else known & Q(created_at__gt=now - most)


def heard(rows: QuerySet[Any], chosen: ChartRange) -> list[Stretch]:
    """What has become of the deliveries of each stretch."""
    span = Span(chosen)
    lately = rows.filter(created_at__gte=span.begins).order_by()
    called_off = Count("pk", filter=STATES[STOPPED])
    grouped = lately.values_list(Hour("created_at"), "state").annotate(
        count=Count("pk"), called_off=called_off
    )  # fmt: skip
    for hour, state, count, off in grouped:
        span.at(hour).add(_heard(state), count - off)
        span.at(hour).add(CALLED_OFF, off)
    return span.stretches


def _heard(state: str) -> str:
    if state == DeliveryState.DELIVERED:
        return HEARD
    return TRYING if state == DeliveryState.PENDING else OVER
