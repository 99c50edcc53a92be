"""The same with workers that are processes of their own, are killed, and are raced with."""

import random
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from django.db import connection

from a2a import cancelling
from a2a.models import Task
from a2a.writer import TaskEnded
from nhi.actors import SYSTEM
from nhi.credentials import credentials
from supervisor import reaping
from supervisor.models import Agent, Execution
from tests.a2a.conftest import Stage
from tests.a2a.runtimes.conftest import sent, states, until_ended
from tests.nhi import cast
from tests.services.waiting import wait_for
from tests.supervisor.sessions import webs
from tests.supervisor.waiting import until, until_over
from tests.supervisor.workers import running, with_command

pytestmark = [
    pytest.mark.capability("A2A-07"),
    pytest.mark.django_db(transaction=True),
    pytest.mark.both_databases,
    pytest.mark.xdist_group("house"),
]
ASKS_READER = ["--to", "reader", "--type", "count"]
ENDS = {"completed", "failed", "canceled", "rejected"}
Put = Callable[..., Agent]


def test_a_killed_worker_fails_its_tasks(open_stage: Stage, behind: Put, tmp_path: Path, broker: str) -> None:
    """Nobody dispatches here: the worker is told, or finds it in its queue."""
    mark = "986.125"
    behind(f"#!/bin/sh\nexec sleep {mark}\n")
    with running(tmp_path, broker) as [worker]:
        task = sent(open_stage)
        wait_for(lambda: with_command(mark), 20, "started")
        until(lambda: Task.objects.filter(pk=task.pk, state="working").exists(), "the task was at work")
        worker.kill()
        wait_for(lambda: not with_command(mark), 5, "ended with its worker")
        reaping.sweep()
        task.refresh_from_db()
        assert (task.state, task.error_code) == ("failed", "system_error")
        assert states(task) == ["working", "failed"]


@pytest.mark.capability("A2A-12")
def test_of_an_end_and_a_cancellation_at_once_one_is_made(
    open_stage: Stage, behind: Put, tmp_path: Path, broker: str
) -> None:
    """The worker ends each of these while two threads here cancel it; what has ended stays as it ended."""
    behind("#!/bin/sh\nsleep 0.05\necho done\n", max_concurrent_executions=None, queue_depth=100)
    chance = random.Random(11)
    with running(tmp_path, broker):
        tasks = [sent(open_stage, f"{number}") for number in range(16)]
        racers = [threading.Thread(target=cancelled, args=(task, chance.uniform(0, 1.0))) for task in tasks * 2]
        for racer in racers:
            racer.start()
        for racer in racers:
            racer.join()
        for task in tasks:
            done = until_ended(task)
            told = states(done)
            assert [state for state in told if state in ENDS] == [done.state] == told[-1:]
            run = Execution.objects.filter(task_id=done.pk).first()
            if run is not None and (done.state == "completed"):
                assert until_over(run).status == "success"
            elif run is not None:
                assert until_over(run).status in {"cancelled", "success"}
            assert done.result == ({"text": "done\n"} if done.state == "completed" else None)


def cancelled(task: Task, after: float) -> None:
    """After as long as a run may take, or at once."""
    waiting = threading.Event()
    waiting.wait(after)
    try:
        cancelling.cancel(actor=SYSTEM, task=task)
    except TaskEnded:
        pass
    finally:
        connection.close()


@pytest.mark.capability("A2A-12")
def test_an_agent_asks_another_within_its_task(
    open_stage: Stage,
    behind: Put,
    example: Callable[[str], str],
    make_agent: Callable[..., Agent],
    tmp_path: Path,
    broker: str,
) -> None:
    """As the example does it: the part stands below the whole, with the chain of who asked whom."""
    other = cast.agent("reader")
    make_agent("#!/bin/sh\nwc -w\n", name="count", identity=other)
    cast.nhi_grant(open_stage.writer, other)
    token = credentials.issue(actor=SYSTEM, holder=open_stage.planner).token
    with webs.serving(tmp_path, broker, token) as web:
        behind(executable_path=example("ask_another.py"), cli_args=ASKS_READER, name="asks")
        with running(tmp_path, broker, PUBLIC_URL=f"http://127.0.0.1:{web.port}"):
            whole = until_ended(sent(open_stage))
            assert (whole.state, whole.error_message) == ("completed", "")
            assert str(whole.result["text"]).split() == ["reader", "says:", "3"]
            part = Task.objects.get(parent=whole)
            assert (part.source, part.agent, part.state) == (open_stage.writer, other, "completed")
            assert [link["name"] for link in part.chain] == ["planner", "writer"]
            asked = Execution.objects.get(pk=part.execution_id).context["by"]
            assert asked["chain"] == part.chain
            assert asked["parent"] == str(whole.execution_id)
            for run in Execution.objects.all():
                until_over(run)


def test_an_agent_that_may_not_ask_fails_with_the_reason(
    open_stage: Stage, behind: Put, example: Callable[[str], str], tmp_path: Path, broker: str
) -> None:
    other = cast.agent("reader")
    grant = cast.nhi_grant(open_stage.writer, other, allowed_actions=["translate"])
    token = credentials.issue(actor=SYSTEM, holder=open_stage.planner).token
    with webs.serving(tmp_path, broker, token) as web:
        behind(executable_path=example("ask_another.py"), cli_args=ASKS_READER, name="asks")
        with running(tmp_path, broker, PUBLIC_URL=f"http://127.0.0.1:{web.port}"):
            whole = until_ended(sent(open_stage))
    assert (whole.state, whole.error_code) == ("failed", "agent_error")
    assert grant.target_id == other.pk
    assert not Task.objects.filter(parent=whole).exists()
