"""The whole way with processes of the product: two beats tick, a worker fires, another runs the agent."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from supervisor import schedules
from supervisor.models import Execution, Schedule, ScheduleFire
from tests.nhi import cast
from tests.services.waiting import wait_for
from tests.supervisor.schedules.conftest import runs
from tests.supervisor.schedules.processes import beats_and_a_worker
from tests.supervisor.workers import running

pytestmark = [
    pytest.mark.capability("SUP-09"),
    pytest.mark.both_databases,
    pytest.mark.django_db(transaction=True),
    pytest.mark.xdist_group("house"),
]
#: The two moments of this night at which the clock shows 02:30.
DUE = datetime(2026, 10, 25, 0, 30, tzinfo=UTC)
REPEATED = DUE + timedelta(hours=1)
Make = Callable[..., Any]


def test_a_due_time_in_a_doubled_hour_becomes_one_run(
    make_schedule: Make, at: Make, tmp_path: Path, broker: str, settings: Any
) -> None:
    schedule = make_schedule(
        cron_expression="30 2 * * *", timezone="Europe/Berlin", inputs={"input": "at night"}, misfire_policy="once"
    )
    missed = make_schedule(name="missed", agent=schedule.agent, cron_expression="0 2 * * *", timezone="Europe/Berlin")
    Schedule.objects.filter(pk=schedule.pk).update(next_execution=DUE)
    Schedule.objects.filter(pk=missed.pk).update(next_execution=DUE.replace(minute=0))
    with running(tmp_path, broker):
        at(DUE.replace(second=1))
        with beats_and_a_worker(tmp_path, settings, broker, beats=2):
            wait_for(lambda: Execution.objects.filter(status="success", state="idle").exists(), 40, "run")
            wait_for(lambda: ScheduleFire.objects.count() == 2, 20, "recorded")
    [run] = runs(schedule)
    assert (run.trigger, run.input, run.result.output) == ("schedule", "at night", "at night")
    [fire] = ScheduleFire.objects.filter(schedule=schedule)
    assert (fire.due_at, fire.execution_id) == (DUE, run.pk)
    assert list(missed.fires.values_list("due_at", "state")) == [(DUE.replace(minute=0), "missed")]
    schedule.refresh_from_db()
    assert schedule.next_execution == datetime(2026, 10, 26, 1, 30, tzinfo=UTC)


def test_in_the_repeated_hour_only_rules_for_every_hour_fire(
    make_schedule: Make, at: Make, tmp_path: Path, broker: str, settings: Any
) -> None:
    hourly = make_schedule(name="hourly", timezone="Europe/Berlin", misfire_policy="once")
    nightly = make_schedule(name="nightly", agent=hourly.agent, timezone="Europe/Berlin", misfire_policy="once")
    at(REPEATED - timedelta(seconds=2))
    for schedule, expression in ((hourly, "30 * * * *"), (nightly, "30 2 * * *")):
        schedules.change(actor=cast.admin(), schedule=schedule, cron_expression=expression)
    with running(tmp_path, broker), beats_and_a_worker(tmp_path, settings, broker, beats=2):
        wait_for(lambda: Execution.objects.filter(status="success", state="idle").exists(), 40, "run")
    assert [run.status for run in runs(hourly)] == ["success"]
    assert list(ScheduleFire.objects.values_list("schedule__name", "due_at")) == [("hourly", REPEATED)]
    for schedule, next_due in ((hourly, REPEATED + timedelta(hours=1)), (nightly, DUE + timedelta(days=1, hours=1))):
        schedule.refresh_from_db()
        assert schedule.next_execution == next_due
