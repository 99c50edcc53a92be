"""The nights in which clocks change, through REST and the sweep: nothing is left out or doubled."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from supervisor.models import Execution, Schedule, ScheduleFire
from supervisor.schedules import firing
from tests.api.callers import calling
from tests.nhi import cast

pytestmark = [pytest.mark.capability("SUP-09"), pytest.mark.both_databases, pytest.mark.django_db]
AUTUMN, SPRING = datetime(2026, 10, 25, tzinfo=UTC), datetime(2027, 3, 28, tzinfo=UTC)
BERLIN = "Europe/Berlin"
Make = Callable[..., Any]


@pytest.fixture
def add(at: Make, make_agent: Make) -> Make:
    """Adds a schedule over REST when its clock shows a moment."""
    mara, agent = calling(cast.user("mara", "security-admin")), make_agent(queue_depth=1000)

    def add(expression: str, moment: datetime, **more: Any) -> Schedule:
        at(moment)
        body = {"cron_expression": expression, "timezone": BERLIN, "overlap_policy": "allow", **more}
        response = mara.post("supervisor/schedules", {"name": expression, "agent_id": str(agent.pk), **body})
        assert response.status == 201, response.body
        return Schedule.objects.get(pk=response.body["id"])

    return add


def ticks(start: datetime, end: datetime, minutes: int) -> Iterator[datetime]:
    while start <= end:
        yield start + timedelta(seconds=2)
        start += timedelta(minutes=minutes)


def due_times_of(schedule: Schedule) -> list[str]:
    rows = list(schedule.fires.order_by("due_at"))
    assert {row.state for row in rows} <= {"fired"}
    assert Execution.objects.filter(schedule_id=schedule.pk).count() == len(rows)
    return [f"{row.due_at:%H:%M}" for row in rows]


@pytest.mark.parametrize(
    ("night", "expression", "due"),
    [
        # 03:00 becomes 02:00 at 01:00 UTC.
        (AUTUMN, "30 2 * * *", ["00:30"]),
        (AUTUMN, "0 2,3 * * *", ["00:00", "02:00"]),
        (AUTUMN, "30 */2 * * *", ["22:30", "00:30"]),
        (AUTUMN, "*/30 * * * *", [f"{hour:02}:{minute:02}" for hour in (22, 23, 0, 1, 2) for minute in (0, 30)]),
        (AUTUMN, "*/30 0-23 * * *", [f"{hour:02}:{minute:02}" for hour in (22, 23, 0, 2) for minute in (0, 30)]),
        # 02:00 becomes 03:00 at 01:00 UTC.
        (SPRING, "30 2 * * *", ["01:00"]),
        (SPRING, "15,30 2,3 * * *", ["01:00", "01:15", "01:30"]),
        (SPRING, "0 3 * * *", ["01:00"]),
        (SPRING, "15 * * * *", ["22:15", "23:15", "00:15", "01:15", "02:15"]),
    ],
)
def test_a_night_of_a_clock_change(night: datetime, expression: str, due: list[str], add: Make, at: Make) -> None:
    schedule = add(expression, night - timedelta(hours=2, seconds=30))
    for moment in ticks(night - timedelta(hours=2), night + timedelta(hours=2, minutes=45), 15):
        at(moment)
        firing.sweep()
        firing.sweep()
    assert due_times_of(schedule) == due


@pytest.mark.parametrize(("midnight", "hours"), [(AUTUMN - timedelta(hours=2), 25), (SPRING - timedelta(hours=1), 23)])
@pytest.mark.parametrize(
    ("expression", "interval", "looks_every"),
    # Nobody looks at the second one until the day is over.
    [("0 * * * *", timedelta(hours=1), 60), ("*/5 * * * *", timedelta(minutes=5), 24 * 60 * 60)],
)
def test_a_rule_for_every_hour_goes_by_real_time(
    midnight: datetime, hours: int, expression: str, interval: timedelta, looks_every: int, add: Make, at: Make
) -> None:
    schedule, end = add(expression, midnight - timedelta(seconds=30)), midnight + timedelta(hours=hours, seconds=-5)
    for moment in (*ticks(midnight, end, looks_every), end):
        at(moment)
        firing.sweep()
    due = list(schedule.fires.order_by("due_at").values_list("due_at", flat=True))
    assert due == [midnight + interval * count for count in range(timedelta(hours=hours) // interval)]


@pytest.mark.parametrize(
    ("expression", "due", "next_due"),
    [
        ("30 2 * * *", [], datetime(2026, 10, 26, 1, 30, tzinfo=UTC)),
        ("*/20 * * * *", ["01:20", "01:40", "02:00"], datetime(2026, 10, 25, 2, 20, tzinfo=UTC)),
    ],
)
def test_a_schedule_may_be_added_inside_the_repeated_hour(
    expression: str, due: list[str], next_due: datetime, add: Make, at: Make
) -> None:
    schedule = add(expression, datetime(2026, 10, 25, 1, 2, tzinfo=UTC))
    for moment in ticks(datetime(2026, 10, 25, 1, 5, tzinfo=UTC), datetime(2026, 10, 25, 2, 15, tzinfo=UTC), 5):
        at(moment)
        firing.sweep()
    assert due_times_of(schedule) == due
    schedule.refresh_from_db()
    assert schedule.next_execution == next_due


@pytest.mark.parametrize(("policy", "late_runs"), [("skip", 0), ("once", 1), ("all", 8)])
def test_an_outage_over_the_repeated_hour_misses_each_due_time_once(
    policy: str, late_runs: int, add: Make, at: Make
) -> None:
    hourly = add("*/15 * * * *", AUTUMN - timedelta(seconds=10), misfire_policy=policy)
    nightly = add("30 2 * * *", AUTUMN - timedelta(seconds=10), misfire_policy=policy)
    at(AUTUMN + timedelta(hours=2, seconds=2))
    for _ in range(3):
        firing.sweep()
    assert list(hourly.fires.order_by("due_at").values_list("due_at", "state")) == [
        *[(AUTUMN + timedelta(minutes=15 * count), "missed") for count in range(8)],
        (AUTUMN + timedelta(hours=2), "fired"),
    ]
    assert hourly.fires.filter(state="missed", execution_id__isnull=False).count() == late_runs
    assert list(nightly.fires.values_list("due_at", "state")) == [(AUTUMN + timedelta(minutes=30), "missed")]
    assert nightly.fires.filter(execution_id__isnull=False).count() == min(late_runs, 1)
    assert ScheduleFire.objects.count() == 10
