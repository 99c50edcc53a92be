"""The nights in which Berlin's clocks change, minute by minute, through the sweep: nothing is left out or doubled."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from supervisor.models import Schedule, ScheduleFire
from supervisor.schedules import due_times, firing
from tests.supervisor.schedules.conftest import runs

pytestmark = [pytest.mark.capability("SUP-09"), pytest.mark.both_databases, pytest.mark.django_db]
BERLIN = ZoneInfo("Europe/Berlin")
AUTUMN, SPRING = datetime(2026, 10, 25, tzinfo=UTC), datetime(2027, 3, 28, tzinfo=UTC)
Make = Callable[..., Any]


def quarters(night: datetime) -> Iterator[datetime]:
    """From 22:00 on, past the change, which is at 01:00 UTC, to 03:00."""
    moment, end = night - timedelta(hours=2), night + timedelta(hours=3)
    while moment <= end:
        yield moment
        moment += timedelta(minutes=15)


@pytest.mark.parametrize(
    ("night", "expression", "due"),
    [
        # 03:00 becomes 02:00: what comes twice fires the first time.
        (AUTUMN, "30 2 * * *", ["00:30"]),
        (AUTUMN, "0 2,3 * * *", ["00:00", "02:00"]),
        (AUTUMN, "*/30 * * * *", ["22:00", "22:30", "23:00", "23:30", "00:00", "00:30", "02:00", "02:30", "03:00"]),
        # 02:00 becomes 03:00: what is left out fires once, as long after the change as it was to be.
        (SPRING, "30 2 * * *", ["01:30"]),
        (SPRING, "0 3 * * *", ["01:00"]),
        (SPRING, "15 * * * *", ["22:15", "23:15", "00:15", "01:15", "02:15"]),
    ],
)
def test_a_night_of_a_clock_change(
    night: datetime, expression: str, due: list[str], make_schedule: Make, make_agent: Make, at: Make
) -> None:
    agent = make_agent(queue_depth=1000)
    schedule = make_schedule(agent=agent, cron_expression=expression, timezone="Europe/Berlin", overlap_policy="allow")
    first = night - timedelta(hours=2, seconds=1)
    next_due = due_times.after(due_times.parsed(expression), BERLIN, first)
    Schedule.objects.filter(pk=schedule.pk).update(next_execution=next_due)
    for moment in quarters(night):
        at(moment + timedelta(seconds=2))
        firing.sweep()
    rows = list(ScheduleFire.objects.order_by("due_at"))
    assert [f"{row.due_at:%H:%M}" for row in rows] == due
    assert {row.state for row in rows} == {"fired"}
    assert len(runs(schedule)) == len(due)
