"""Runs that Gatehouse began say who is behind them: the sender of their task, or their schedule."""

import pytest
from django.db import transaction
from django.test import Client

from a2a import dispatching
from common.db import clock
from nhi.actors import SYSTEM
from nhi.models import Identity
from supervisor import schedules
from supervisor.models import Agent, Execution
from supervisor.schedules.runs import Batch
from tests.a2a import rows
from tests.console.conftest import identity
from tests.console.reading import queries
from tests.supervisor.console import scene
from tests.supervisor.console.scene import QUEUE, RUNS, page_of

pytestmark = [pytest.mark.capability("SUP-10", "A2A-02", "CON-05"), pytest.mark.django_db]


@pytest.fixture
def ship(seeded: None) -> Agent:
    return scene.agent("ship", of="writer")


def for_task(ship: Agent, planner: Identity) -> Execution:
    task = rows.sent(identity("writer"), source_agent_id=planner.pk)
    dispatching.dispatch(ship.pk)
    return Execution.objects.get(task_id=task.pk)


def by_schedule(ship: Agent) -> Execution:
    described = {"name": "newcomer-minute", "cron_expression": "* * * * *"}
    schedule = schedules.create(actor=SYSTEM, agent=ship, given=described)
    with transaction.atomic():
        batch = Batch([schedule])
        outcome = batch.begin(schedule, clock.database_now())
        batch.keep()
    return Execution.objects.get(pk=outcome.execution_id)


def test_a_run_for_a_task_names_its_sender_and_one_of_a_schedule_the_schedule(
    ship: Agent, planner: Identity, mara: Client
) -> None:
    run, timed = for_task(ship, planner), by_schedule(ship)
    assert run.started_by_name == timed.started_by_name == "Gatehouse"
    said = f"by task T-{run.task_id.hex[-6:]}"
    listed = " ".join(mara.get(RUNS).content.decode().split())
    assert f'mara, <span class="gh-subtle">{said}</span>' in listed
    assert "schedule newcomer-minute" in listed
    assert "Gatehouse Task" not in listed
    assert f"<dd>mara, {said}, " in mara.get(page_of(run)).content.decode()
    assert "<dd>schedule newcomer-minute, <" in mara.get(page_of(timed)).content.decode()
    queue = mara.get(QUEUE).content.decode()
    assert "by mara<" in queue
    assert "by schedule newcomer-minute<" in queue


def test_more_of_them_ask_the_database_no_more(ship: Agent, planner: Identity, mara: Client) -> None:
    for_task(ship, planner), by_schedule(ship)
    few = queries(mara, RUNS)
    for _ in range(3):
        for_task(ship, planner)
    assert queries(mara, RUNS) == few
