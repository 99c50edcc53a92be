"""Any number of sweeps at the same moment, in threads and in processes of their own: one fire each."""

import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from supervisor.models import Execution, Schedule, ScheduleFire
from supervisor.schedules import firing, pausing
from tests.nhi import cast
from tests.nhi.races.crowd import at_once
from tests.services.house import ROOT
from tests.supervisor.schedules.conftest import NOON
from tests.supervisor.schedules.processes import environ

pytestmark = [pytest.mark.capability("SUP-09"), pytest.mark.both_databases, pytest.mark.django_db(transaction=True)]
COUNT = 40
SWEEP = "import django, sys; django.setup(); print('ready', flush=True); sys.stdin.readline(); {}"
CALL = "from supervisor.schedules import firing; [firing.sweep() for _ in range(3)]"
Make = Callable[..., Any]


@pytest.fixture
def due(make_schedule: Make, make_agent: Make, at: Make) -> list[Schedule]:
    """Forty schedules, all due now; some of them missed a time, too."""
    agents = [make_agent(name=f"agent-{number}", queue_depth=1000) for number in range(3)]
    made = [
        make_schedule(name=f"s{number}", agent=agents[number % 3], misfire_policy="once", overlap_policy="allow")
        for number in range(COUNT)
    ]
    at(NOON + timedelta(minutes=2))
    return made


def assert_once(made: list[Schedule]) -> None:
    states = Counter(ScheduleFire.objects.values_list("state", flat=True))
    assert states == {"missed": len(made), "fired": len(made)}
    assert Execution.objects.filter(trigger="schedule").count() == 2 * len(made)
    numbers = list(Execution.objects.values_list("agent_id", "number"))
    assert len(set(numbers)) == len(numbers)


def test_threads_that_sweep_at_once_fire_each_due_time_once(due: list[Schedule]) -> None:
    assert not [found for found in at_once(6, lambda _: firing.sweep()) if isinstance(found, Exception)]
    firing.sweep()
    assert_once(due)


def test_processes_that_sweep_at_once_fire_each_due_time_once(due: list[Schedule], broker: str, settings: Any) -> None:
    command = [sys.executable, "-c", SWEEP.format(CALL)]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    sweeps = [subprocess.Popen(command, cwd=ROOT, env=environ(settings, broker), **pipes) for _ in range(2)]
    for sweep in sweeps:
        assert sweep.stdout.readline() == "ready\n"
    for sweep in sweeps:
        sweep.stdin.write("go\n")
        sweep.stdin.close()
    for sweep in sweeps:
        assert sweep.wait(30) == 0
        sweep.stdout.close()
    firing.sweep()
    assert_once(due)


def test_a_pause_at_the_same_moment_wins_or_comes_after(due: list[Schedule]) -> None:
    """Whichever was first: nothing fires after the pause has been answered."""
    boss = cast.admin()
    some = due[:6]

    def act(number: int) -> Any:
        return firing.sweep() if number == 6 else pausing.pause(actor=boss, schedule=some[number])

    assert not [found for found in at_once(7, act) if isinstance(found, Exception)]
    before = {schedule.pk: schedule.fires.count() for schedule in some}
    firing.sweep()
    assert {schedule.pk: schedule.fires.count() for schedule in some} == before
    assert not Schedule.objects.filter(pk__in=before, next_execution__isnull=False).exists()
