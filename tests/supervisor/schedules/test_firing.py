"""Due times become runs: in time, late, beside and behind others, and not at all; each is on record once."""

from collections.abc import Callable
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from nhi.actors import SYSTEM
from nhi.identities import lifecycle
from supervisor import agents, schedules
from supervisor.models import Agent, Execution, Schedule, ScheduleFire
from supervisor.schedules import firing, pausing
from tests.nhi import cast
from tests.supervisor.schedules.conftest import NOON, finish, fires, runs

pytestmark = [pytest.mark.capability("SUP-09"), pytest.mark.both_databases, pytest.mark.django_db]
MINUTE = timedelta(minutes=1)
Make = Callable[..., Any]


def after(schedule: Schedule, at: Make, **later: float) -> list[tuple[str, str, bool]]:
    """What there is of it after a sweep so much later than noon."""
    at(NOON + timedelta(**later))
    firing.sweep()
    return fires(schedule)


def test_a_due_time_fires_once_with_the_schedules_input(make_schedule: Make, at: Make) -> None:
    schedule = make_schedule(inputs={"input": "the figures", "parameters": {"depth": 3}})
    assert after(schedule, at) == []
    for _ in range(3):
        assert after(schedule, at, seconds=58) == [("12:01", "fired", True)]
    [run] = runs(schedule)
    assert (run.trigger, run.started_by_name, run.input, run.parameters) == (
        "schedule", "Gatehouse", "the figures", {"depth": 3},
    )  # fmt: skip
    assert run.context["by"] == {"schedule": str(schedule.pk)}
    schedule.refresh_from_db()
    assert schedule.next_execution == (NOON + 2 * MINUTE).replace(second=0)
    assert schedule.last_execution is not None


def test_nothing_paused_switched_off_or_removed_fires(make_schedule: Make, make_agent: Make, at: Make) -> None:
    agent = make_agent(max_concurrent_executions=10)
    paused, off, removed = (make_schedule(name=name, agent=agent) for name in ("paused", "off", "removed"))
    pausing.pause(actor=SYSTEM, schedule=paused)
    schedules.change(actor=SYSTEM, schedule=off, enabled=False)
    schedules.remove(actor=SYSTEM, schedule=removed)
    at(NOON + 5 * MINUTE)
    firing.sweep()
    assert not ScheduleFire.objects.exists()
    pausing.resume(actor=SYSTEM, schedule=paused)
    schedules.change(actor=SYSTEM, schedule=off, enabled=True)
    at(NOON + 6 * MINUTE)
    firing.sweep()
    assert fires(paused) == fires(off) == [("12:06", "fired", True)]


@pytest.mark.parametrize(
    ("policy", "late_runs"), [("skip", []), ("once", ["12:03"]), ("all", ["12:01", "12:02", "12:03"])]
)
def test_what_nobody_was_there_for_is_missed_and_run_by_its_policy(
    policy: str, late_runs: list[str], make_schedule: Make, at: Make
) -> None:
    schedule = make_schedule(misfire_policy=policy, overlap_policy="allow")
    found = after(schedule, at, minutes=4)
    expected = [(minute, "missed", minute in late_runs) for minute in ("12:01", "12:02", "12:03")]
    assert found == [*expected, ("12:04", "fired", True)]
    assert len(runs(schedule)) == len(late_runs) + 1
    assert cast.events(schedule).count("schedule.missed") == 1


def test_half_a_minute_late_is_in_time_and_more_is_missed(make_schedule: Make, at: Make) -> None:
    schedule = make_schedule()
    assert after(schedule, at, seconds=80) == [("12:01", "fired", True)]
    finish(runs(schedule)[0])
    assert after(schedule, at, seconds=150) == [("12:01", "fired", True), ("12:02", "missed", False)]


def test_late_runs_wait_for_one_another_unless_they_may_run_beside(make_schedule: Make, at: Make) -> None:
    schedule = make_schedule(misfire_policy="all", overlap_policy="queue")
    found = after(schedule, at, minutes=3)
    assert found == [("12:01", "missed", True), ("12:02", "missed", False), ("12:03", "queued", False)]
    for count in (2, 3):
        finish(runs(schedule)[-1])
        firing.sweep()
        assert len(runs(schedule)) == count
    assert fires(schedule) == [("12:01", "missed", True), ("12:02", "missed", True), ("12:03", "fired", True)]
    assert not ScheduleFire.objects.filter(owed=True).exists()


@pytest.mark.parametrize(
    ("policy", "second"), [("skip", ("skipped", False)), ("queue", ("queued", False)), ("allow", ("fired", True))]
)
def test_a_run_that_is_not_done_is_met_by_policy(
    policy: str, second: tuple[str, bool], make_schedule: Make, at: Make
) -> None:
    schedule = make_schedule(overlap_policy=policy)
    after(schedule, at, minutes=1)
    assert after(schedule, at, minutes=2)[1] == ("12:02", *second)
    reason = ScheduleFire.objects.get(due_at=(NOON + 2 * MINUTE).replace(second=0)).reason
    assert bool(reason) == (policy != "allow")
    finish(runs(schedule)[0])
    firing.sweep()
    assert len(runs(schedule)) == (1 if policy == "skip" else 2)


def test_runs_that_wait_are_given_up_when_their_schedule_is_paused(make_schedule: Make, at: Make) -> None:
    schedule = make_schedule(misfire_policy="all", overlap_policy="queue")
    after(schedule, at, minutes=3)
    pausing.pause(actor=SYSTEM, schedule=schedule, reason="Maintenance")
    finish(runs(schedule)[0])
    firing.sweep()
    assert fires(schedule) == [("12:01", "missed", True), ("12:02", "missed", False), ("12:03", "skipped", False)]


def test_what_stands_in_the_way_is_kept_beside_the_due_time(
    make_schedule: Make, make_agent: Make, submit: Make, at: Make
) -> None:
    gone = cast.agent("gone")
    by_name = {
        "off": make_schedule(name="off"),
        "stopped": make_schedule(name="stopped", agent=make_agent(name="stopped", identity=gone)),
        "full": make_schedule(name="full", agent=make_agent(name="full", queue_depth=0, max_concurrent_executions=1)),
        "changed": make_schedule(name="changed"),
    }
    agents.switch(actor=SYSTEM, agent=by_name["off"].agent, on=False, reason="Maintenance")
    Agent.objects.filter(name="changed").update(mode="interactive")
    submit(by_name["full"].agent)
    lifecycle.suspend(actor=SYSTEM, identity=gone, reason="Leak")
    Schedule.objects.filter(name="stopped").update(paused_at=None, next_execution=by_name["stopped"].next_execution)
    at(NOON + MINUTE)
    firing.sweep()
    said = {name: (row.state, row.reason) for name, schedule in by_name.items() for row in schedule.fires.all()}
    assert said == {
        "off": ("skipped", "off is switched off. Ask an operator to switch it on."),
        "stopped": ("skipped", "stopped cannot run: its identity gone is suspended."),
        "full": ("failed", "The queue of full is full: 1 run waits already."),
        "changed": ("failed", "changed is interactive now and runs no tasks."),
    }
    assert not Execution.objects.filter(trigger="schedule").exists()


def test_a_long_outage_is_recorded_whole_and_runs_are_bounded(make_schedule: Make, make_agent: Make, at: Make) -> None:
    """1 500 missed minutes, which is three rounds; the last hundred have runs."""
    agent = make_agent(queue_depth=1000)
    schedule = make_schedule(agent=agent, misfire_policy="all", overlap_policy="allow")
    after(schedule, at, minutes=1500)
    rows = list(schedule.fires.order_by("due_at"))
    assert len(rows) == 1500
    assert [row.state for row in rows] == ["missed"] * 1499 + ["fired"]
    assert [row.execution_id is not None for row in rows] == [False] * 1399 + [True] * 101
    assert len({later.due_at - row.due_at for row, later in pairwise(rows)}) == 1


def test_late_runs_that_find_no_room_come_when_there_is_some(make_schedule: Make, make_agent: Make, at: Make) -> None:
    agent = make_agent(max_concurrent_executions=1, queue_depth=1)
    schedule = make_schedule(agent=agent, misfire_policy="all", overlap_policy="allow")
    assert [has_run for _, _, has_run in after(schedule, at, minutes=5)] == [True, True, False, False, False]
    for run in runs(schedule):
        finish(run)
    firing.sweep()
    assert [has_run for _, _, has_run in fires(schedule)] == [True, True, True, True, False]


def test_one_that_cannot_be_fired_keeps_none_of_the_others_back(
    make_schedule: Make, make_agent: Make, at: Make
) -> None:
    agent = make_agent()
    first, spoilt, last = (make_schedule(name=name, agent=agent) for name in ("first", "spoilt", "last"))
    Schedule.objects.filter(pk=spoilt.pk).update(timezone="Nowhere/Atall")
    at(NOON + MINUTE)
    firing.sweep()
    assert fires(first) == fires(last) == [("12:01", "fired", True)]
    assert fires(spoilt) == []


def test_a_clock_that_was_set_back_fires_nothing_twice(make_schedule: Make, at: Make) -> None:
    schedule = make_schedule(overlap_policy="allow")
    after(schedule, at, minutes=1)
    Schedule.objects.filter(pk=schedule.pk).update(next_execution=(NOON + MINUTE).replace(second=0))
    assert after(schedule, at, minutes=1) == [("12:01", "fired", True)]
    schedule.refresh_from_db()
    assert schedule.next_execution == (NOON + 2 * MINUTE).replace(second=0)


def test_two_hundred_are_fired_by_few_statements_each(make_schedule: Make, make_agent: Make, at: Make) -> None:
    agents_of = [make_agent(name=f"agent-{number}", queue_depth=1000) for number in range(4)]
    for number in range(200):
        make_schedule(name=f"s{number}", agent=agents_of[number % 4])
    at(NOON + MINUTE)
    with CaptureQueriesContext(connection) as said:
        firing.sweep()
    assert ScheduleFire.objects.filter(state="fired").count() == 200
    assert len(said) < 3 * 200
