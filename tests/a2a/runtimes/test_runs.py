"""A task of an agent with a program behind it becomes a run, and goes where that goes."""

import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from a2a import cancelling, dispatching, endings, endpoint_changes, following, sweeping
from a2a.choices import TaskState
from a2a.models import Task
from nhi.actors import SYSTEM
from supervisor import agents, moves, submitting
from supervisor import cancelling as stopping
from supervisor.access import Caller
from supervisor.choices import ExecutionState
from supervisor.models import Agent, Execution
from supervisor.runner.service import Service
from supervisor.submitting import Wish
from tests.a2a.conftest import Stage
from tests.a2a.runtimes.conftest import dispatched, sent, states, until_ended
from tests.nhi import cast
from tests.supervisor.waiting import until, until_over, until_running

pytestmark = [
    pytest.mark.capability("A2A-07"),
    pytest.mark.django_db(transaction=True),
    pytest.mark.both_databases,
]
WAITS = "#!/bin/sh\nexec sleep 60\n"
ANSWERS = """#!/usr/bin/env python3
import json, sys
asked = json.loads(sys.stdin.readline())
print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": asked["params"]}))
"""
Put = Callable[..., Agent]


def test_a_task_becomes_a_run_and_its_output_the_result(open_stage: Stage, behind: Put, runner: Service) -> None:
    behind()
    task = sent(open_stage)
    run = dispatched(task)
    assert (run.task_id, run.trigger, run.started_by_name) == (task.pk, "task", "Gatehouse")
    assert run.context["by"]["task"] == str(task.pk)
    done = until_ended(task)
    assert (done.state, done.result) == (TaskState.COMPLETED, {"text": "Plants need water."})
    assert states(done) == ["working", "completed"]
    assert done.artifacts.get().body["parts"] == [{"text": "Plants need water."}]
    assert (done.dispatch_at, done.started_at is not None) == (None, True)
    until_over(run)


def test_an_agent_of_json_rpc_is_given_parameters_and_answers_data(
    open_stage: Stage, behind: Put, runner: Service
) -> None:
    behind(ANSWERS, input_pattern="json-rpc", output_pattern="json-rpc")
    given = {"input": "six", "parameters": {"n": 6}}
    reply = open_stage.sends(input=given)
    task = Task.objects.get(pk=reply.body["task_id"])
    run = dispatched(task)
    assert until_ended(task).result == given
    assert task.artifacts.get().body["parts"] == [{"data": given, "mediaType": "application/json"}]
    until_over(run)


def test_what_its_program_may_not_show_is_given_to_it(open_stage: Stage, behind: Put, runner: Service) -> None:
    """The secret in a message reaches the run, and no row."""
    behind('#!/bin/sh\ngrep -c "hunter2secret"\n')
    task = sent(open_stage, "password=hunter2secret")
    assert "hunter2secret" not in str(task.input)
    run = dispatched(task)
    assert until_ended(task).result == {"text": "1\n"}
    until_over(run)


def test_an_answer_that_its_endpoint_does_not_take_fails_the_task(
    open_stage: Stage, behind: Put, runner: Service
) -> None:
    behind()
    endpoint_changes.change(actor=SYSTEM, identity=open_stage.writer, max_output_size=10)
    task = sent(open_stage)
    run = dispatched(task)
    done = until_ended(task)
    assert (done.state, done.error_code) == (TaskState.FAILED, "output_too_large")
    assert not done.artifacts.exists()
    until_over(run)


@pytest.mark.parametrize(
    ("script", "given", "code"),
    [
        ("#!/bin/sh\necho broken >&2\nexit 3\n", {}, "agent_error"),
        ("#!/bin/sh\nexit 75\n", {}, "transient_error"),
        (WAITS, {"timeout": 1}, "timeout"),
    ],
)
def test_a_run_that_fails_fails_its_task_and_cancels_its_parts(
    open_stage: Stage, behind: Put, runner: Service, script: str, given: dict[str, Any], code: str
) -> None:
    behind(script, **given)
    task = sent(open_stage)
    part = Task.objects.create(
        agent=open_stage.planner, agent_name="planner", source=open_stage.writer, parent=task, context_id="c",
        created_by_kind="identity", created_by_name="writer",
    )  # fmt: skip
    run = dispatched(task)
    done = until_ended(task)
    assert (done.state, done.error_code) == (TaskState.FAILED, code)
    assert done.error_message == run.__class__.objects.get(pk=run.pk).error_message != ""
    until(lambda: Task.objects.filter(pk=part.pk, error_code="parent_cancelled").exists(), "its part was cancelled")
    until_over(run)


@pytest.mark.capability("A2A-12")
def test_cancelling_a_task_stops_its_run(open_stage: Stage, behind: Put, runner: Service) -> None:
    behind(WAITS)
    task = sent(open_stage)
    run = until_running(dispatched(task))
    until(lambda: Task.objects.filter(pk=task.pk, state="working").exists(), "the task was at work")
    cancelling.cancel(actor=SYSTEM, task=task, reason="Not needed")
    assert until_over(run).status == "cancelled"
    task.refresh_from_db()
    assert (task.state, task.error_code) == (TaskState.CANCELED, "")


@pytest.mark.capability("A2A-12")
def test_a_deadline_stops_its_run(open_stage: Stage, behind: Put, runner: Service) -> None:
    behind(WAITS)
    task = sent(open_stage, deadline=cast.future(hours=1))
    run = until_running(dispatched(task))
    Task.objects.filter(pk=task.pk).update(deadline=cast.past(seconds=1))
    sweeping.sweep()
    assert until_over(run).status == "cancelled"
    task.refresh_from_db()
    assert (task.state, task.error_code) == (TaskState.FAILED, "deadline_exceeded")


def test_stopping_a_run_cancels_its_task(open_stage: Stage, behind: Put, runner: Service) -> None:
    behind(WAITS)
    task = sent(open_stage)
    run = until_running(dispatched(task))
    stopping.cancel(actor=cast.acting("oscar", "operator"), execution=run, reason="It hangs")
    done = until_ended(task)
    assert (done.state, done.error_code) == (TaskState.CANCELED, "run_cancelled")
    assert "stopped by oscar: It hangs" in done.error_message
    until_over(run)


@pytest.mark.capability("NHI-03")
@pytest.mark.parametrize("started", [True, False], ids=["running", "queued"])
def test_the_kill_switch_ends_both(
    open_stage: Stage, behind: Put, request: pytest.FixtureRequest, started: bool
) -> None:
    behind(WAITS)
    task = sent(open_stage)
    run = dispatched(task)
    if started:
        request.getfixturevalue("runner")
        until_running(run)
    stopped = open_stage.admin.post(f"identities/{open_stage.writer.pk}/suspend", {"reason": "Leaked"}).body
    assert (stopped["stopped"]["tasks"], stopped["stopped"]["executions"], stopped["pending"]) == (1, 1, [])
    task.refresh_from_db()
    assert (task.state, task.error_code) == (TaskState.CANCELED, "stopped")
    if not started:
        request.getfixturevalue("runner")
    assert until_over(run).status == "cancelled"


@pytest.mark.capability("NHI-03")
def test_the_kill_switch_of_who_asked_stops_the_run(open_stage: Stage, behind: Put, runner: Service) -> None:
    behind(WAITS)
    task = sent(open_stage)
    run = until_running(dispatched(task))
    open_stage.admin.post(f"identities/{open_stage.planner.pk}/suspend", {"reason": "Leaked"})
    assert until_over(run).status == "cancelled"
    assert until_ended(task).error_code == "stopped"


def test_a_missed_move_is_found_by_the_sweeper(open_stage: Stage, behind: Put, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the process had ended between its commit and the telling."""
    behind()
    task = sent(open_stage)
    with monkeypatch.context() as deaf:
        deaf.setattr(moves, "_listeners", [])
        running = Service(2)
        running.start()
        until_over(dispatched(task))
        running.stop()
    task.refresh_from_db()
    assert task.state == TaskState.SUBMITTED
    sweeping.sweep()
    task.refresh_from_db()
    assert (task.state, states(task)) == (TaskState.COMPLETED, ["working", "completed"])
    seq = task.last_seq
    following.follow(Execution.objects.get(pk=task.execution_id))
    task.refresh_from_db()
    assert task.last_seq == seq


def test_a_missed_cancel_is_found_by_the_sweeper(
    open_stage: Stage, behind: Put, monkeypatch: pytest.MonkeyPatch
) -> None:
    behind()
    task = sent(open_stage)
    run = dispatched(task)
    with monkeypatch.context() as deaf:
        deaf.setattr(endings, "_listeners", [])
        cancelling.cancel(actor=SYSTEM, task=task)
    assert Execution.objects.get(pk=run.pk).state == ExecutionState.QUEUED
    sweeping.sweep()
    assert Execution.objects.get(pk=run.pk).status == "cancelled"


def test_a_full_queue_is_waited_for_in_order(open_stage: Stage, behind: Put) -> None:
    agent = behind(max_concurrent_executions=1, queue_depth=0)
    tasks = [sent(open_stage, f"{number}") for number in range(3)]
    dispatching.dispatch_due()
    assert [Task.objects.get(pk=task.pk).execution_id is not None for task in tasks] == [True, False, False]
    running = Service(2)
    running.start()
    for task in tasks:
        until(partial(ran_out, agent, task), f"the {task} ended")
    ran = Execution.objects.order_by("number").values_list("task_id", flat=True)
    assert list(ran) == [task.pk for task in tasks]
    until(lambda: not Execution.objects.exclude(state="idle").exists(), "all was cleared away")
    running.stop()


def ran_out(agent: Agent, task: Task) -> bool:
    """Looked for again by a worker, as the clock has it do."""
    dispatching.dispatch(agent.pk)
    return not Task.objects.open().filter(pk=task.pk).exists()


def test_what_waited_too_long_for_a_place_fails(
    open_stage: Stage, behind: Put, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = behind(max_concurrent_executions=1, queue_depth=0)
    submitting.submit(caller=Caller(SYSTEM), agent=agent, wish=Wish(input="x"))
    task = sent(open_stage)
    dispatching.dispatch_due()
    assert Task.objects.get(pk=task.pk).state == TaskState.SUBMITTED
    Task.objects.filter(pk=task.pk).update(created_at=timezone.now() - dispatching.PATIENCE)
    dispatching.dispatch_due()
    task.refresh_from_db()
    assert (task.state, task.error_code) == (TaskState.FAILED, "queue_full")


def test_what_cannot_be_run_fails_with_the_reason(open_stage: Stage, behind: Put) -> None:
    agent = behind(cli_args=["--tone", "{{ tone }}"])
    task = sent(open_stage)
    dispatching.dispatch_due()
    task.refresh_from_db()
    assert (task.state, task.error_code) == (TaskState.FAILED, "invalid_parameters")
    assert "parameters.tone" in task.error_message
    other = sent(open_stage)
    agents.switch(actor=SYSTEM, agent=agent, on=False, reason="Maintenance")
    dispatching.dispatch_due()
    other.refresh_from_db()
    assert (other.state, other.error_code, other.dispatch_at) == (TaskState.FAILED, "agent_disabled", None)
    assert not Execution.objects.exists()


def test_two_dispatchers_start_one_run(open_stage: Stage, behind: Put) -> None:
    agent = behind()
    tasks = [sent(open_stage, f"{number}") for number in range(6)]
    ready, begun = threading.Barrier(4), []

    def race() -> None:
        ready.wait()
        try:
            begun.append(dispatching.dispatch(agent.pk))
        finally:
            connection.close()

    racers = [threading.Thread(target=race) for _ in range(4)]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join()
    dispatching.dispatch(agent.pk)
    assert sorted(Execution.objects.values_list("task_id", flat=True)) == sorted(task.pk for task in tasks)
    assert sum(begun) <= 6


def test_its_inbox_does_not_offer_it(open_stage: Stage, behind: Put) -> None:
    behind()
    task = sent(open_stage)
    assert open_stage.worker.get("a2a/inbox").body["tasks"] == []
    assert open_stage.claims(str(task.pk)).is_refused(409, "Conflict", "not_for_inbox")


def test_a_task_that_is_cancelled_first_is_never_run(open_stage: Stage, behind: Put) -> None:
    behind()
    task = sent(open_stage)
    cancelling.cancel(actor=SYSTEM, task=task)
    dispatching.dispatch_due()
    assert not Execution.objects.exists()
    assert Task.objects.get(pk=task.pk).dispatch_at is None
