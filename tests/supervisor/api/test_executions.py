"""Runs over the API, by real programs: what is read of them, who reads it, and how they are stopped."""

import json
from collections.abc import Callable
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest

from supervisor import cancelling, reaping
from supervisor.choices import TRANSITIONS, ExecutionState
from supervisor.models import Agent, Execution, OutputChunk, Runner
from supervisor.runner import run as runs
from tests.api.callers import Caller, Reply
from tests.api.conftest import Stage
from tests.nhi import cast
from tests.supervisor.waiting import until_over, until_running

pytestmark = [pytest.mark.capability("SUP-10"), pytest.mark.django_db(transaction=True)]
Body = dict[str, Any]
Make = Callable[..., Agent]
Submit = Callable[..., Execution]
GITHUB = "ghp_" + "a1B2" * 9
#: What a name, or what stands before it, tells to be a secret.
HIDDEN = {"in": [{"api_keys": ["correct-horse-77"]}, "https://u:correct-horse-77@host/"]}
FIELDS = {
    "id", "agent_id", "state", "previous_state", "start_time", "end_time", "last_state_change", "input", "process_id",
    "exit_code", "error_message", "error_category", "retry_count", "max_retries", "timeout", "resource_usage",
    "context", "schedule_id", "task_id", "status",
}  # fmt: skip
WHOLE = FIELDS | {"result", "state_transitions", "previous_retries"}
RESULT = {
    "status", "output", "error", "execution_time", "output_bytes", "error_bytes", "output_truncated", "error_truncated",
}  # fmt: skip


def of(caller: Caller, execution: Execution) -> Reply:
    return caller.get(f"supervisor/executions/{execution.pk}")


def moves(body: Body) -> list[str]:
    return [move["to"] for move in body["state_transitions"]]


def is_legal(body: Body) -> bool:
    """Whether each move is one of the table's, from where the last one led, and none is older than the one before."""
    told = body["state_transitions"]
    steps = all(one["to"] in TRANSITIONS[ExecutionState(one["from"])] for one in told[1:])
    joined = all(one["to"] == other["from"] and one["at"] <= other["at"] for one, other in pairwise(told))
    return steps and joined and told[0]["from"] is None and told[-1]["to"] == body["state"]


@pytest.mark.both_databases
@pytest.mark.capability("SUP-07", "SUP-03")
@pytest.mark.usefixtures("runner")
def test_a_run_is_told_whole(stage: Stage, make_agent: Make, submit: Submit) -> None:
    agent = make_agent("#!/bin/sh\ncat\necho odd >&2\n", identity=stage.bot, timeout=20)
    run = until_over(submit(agent, "Plants need water.", parameters={"tone": "dry"}))
    body = of(stage.admin, run).body
    assert body.keys() >= WHOLE
    assert body["result"] == {
        "status": "success", "output": "Plants need water.", "error": "odd\n",
        "execution_time": body["result"]["execution_time"], "output_bytes": 18, "error_bytes": 4,
        "output_truncated": False, "error_truncated": False,
    }  # fmt: skip
    told = {
        "agent_id": str(agent.pk), "state": "idle", "previous_state": "cleanup", "status": "success", "exit_code": 0,
        "error_message": None, "error_category": None, "retry_count": 0, "max_retries": 3, "timeout": "20s",
        "input": "Plants need water.", "parameters": {"tone": "dry"}, "schedule_id": None, "task_id": None,
        "previous_retries": [], "queue_position": None, "identity_id": str(stage.bot.pk), "number": 1,
    }  # fmt: skip
    assert body == {**body, **told}
    assert moves(body) == ["queued", "starting", "running", "completed", "cleanup", "idle"]
    assert is_legal(body)
    assert isinstance(body["process_id"], int)
    used = body["resource_usage"]
    assert used["peak_memory_mb"] > 0
    assert used.keys() >= {"cpu_percent", "memory_mb", "peak_memory_mb", "disk_read_mb", "disk_write_mb"}
    took = datetime.fromisoformat(body["end_time"]) - datetime.fromisoformat(body["start_time"])
    assert timedelta() < timedelta(milliseconds=body["result"]["execution_time"]) <= took + timedelta(seconds=1)
    [listed] = stage.admin.get("supervisor/executions").body["executions"]
    assert listed == {name: body[name] for name in listed}
    assert listed.keys() >= FIELDS


@pytest.mark.capability("SUP-07")
@pytest.mark.usefixtures("runner")
def test_no_secret_is_told(stage: Stage, make_agent: Make, submit: Submit) -> None:
    script = '#!/bin/sh\ncat\necho "$DEPLOY_TOKEN $GATEHOUSE_TOKEN" >&2\necho "key: $DEPLOY_TOKEN"\n'
    script += """sed 's/[":{},]/ /g' parameters.json\n"""
    agent = make_agent(script, identity=stage.bot, envs={"DEPLOY_TOKEN": "plain-words-of-ours"})
    run = until_over(submit(agent, f"Use {GITHUB} today.\n", parameters={"password": "hunter2hunter2", "log": HIDDEN}))
    answers = [
        of(stage.admin, run), stage.admin.get("supervisor/executions"),
        stage.admin.get(f"supervisor/agents/{agent.pk}"),
    ]  # fmt: skip
    said = json.dumps([answer.body for answer in answers])
    said += "".join(OutputChunk.objects.values_list("text", flat=True))
    for secret in (GITHUB, "plain-words-of-ours", "hunter2hunter2", "correct-horse-77", "nhi_tok_"):
        assert secret not in said
    body = answers[0].body
    assert body["input"].startswith("Use ")
    assert body["input"].endswith(" today.\n")
    assert body["result"]["output"].startswith("Use ")
    assert body["input_bytes"] == len(f"Use {GITHUB} today.\n")


@pytest.mark.capability("SUP-06")
@pytest.mark.usefixtures("runner")
def test_tries_that_were_followed_by_another_are_told(
    stage: Stage, make_agent: Make, submit: Submit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "WAITS", (0.01,))
    agent = make_agent("#!/bin/sh\necho connection refused >&2\nexit 3\n", identity=stage.bot, max_retries=2)
    body = of(stage.admin, until_over(submit(agent))).body
    assert (body["status"], body["retry_count"], body["error_category"]) == ("failure", 2, "Transient")
    assert [try_["attempt"] for try_ in body["previous_retries"]] == [1, 2]
    for before in body["previous_retries"]:
        assert before.keys() >= {"attempt", "start_time", "end_time", "error_category", "error_message"}
        assert (before["error_category"], before["exit_code"]) == ("Transient", 3)
        assert "connection refused" in before["error_message"]
    assert moves(body).count("starting") == 3
    assert is_legal(body)


@pytest.mark.usefixtures("runner")
@pytest.mark.parametrize("asked", ["cancel", "delete"])
def test_a_run_is_stopped_once(stage: Stage, waits: Agent, submit: Submit, asked: str) -> None:
    run = until_running(submit(waits))
    place = f"supervisor/executions/{run.pk}"
    if asked == "cancel":
        stopped = stage.admin.post(f"{place}/cancel", {"reason": "Wrong file"})
    else:
        stopped = stage.admin.send("DELETE", place)
    assert (stopped.status, stopped.body["id"]) == (200, str(run.pk))
    assert stopped.body["cancelled_by"] == "mara"
    assert stage.admin.send("DELETE", place).is_refused(409, "Conflict")
    body = of(stage.admin, until_over(run)).body
    reason = "Wrong file" if asked == "cancel" else "Cancelled by API"
    assert (body["status"], body["result"]["status"], body["cancel_reason"]) == ("cancelled", "cancelled", reason)
    assert moves(body)[-3:] == ["cancelled", "cleanup", "idle"]
    assert stage.admin.post(f"{place}/cancel").is_refused(409, "Conflict")
    assert cast.events(waits).count("run.cancelled") == 0
    assert cast.events(run) == ["run.cancelled"]


@pytest.mark.both_databases
def test_a_run_that_waits_ends_at_once(stage: Stage, echo: Agent, submit: Submit) -> None:
    run = submit(echo, "hello")
    stopped = stage.admin.post(f"supervisor/executions/{run.pk}/cancel").body
    assert (stopped["state"], stopped["status"], stopped["cancel_reason"]) == ("idle", "cancelled", "Cancelled by API")
    assert stopped["result"] == {
        "status": "cancelled", "output": "", "error": "", "execution_time": 0, "output_bytes": 0, "error_bytes": 0,
        "output_truncated": False, "error_truncated": False,
    }  # fmt: skip
    assert stopped["resource_usage"] is None
    assert is_legal(stopped)


def silent() -> Runner:
    """A worker of another host that was not heard of for a minute."""
    return Runner.objects.create(
        host="elsewhere", pid=1, process_start=0, boot="x", capacity=1, seen_at=cast.past(minutes=1)
    )  # fmt: skip


@pytest.mark.both_databases
@pytest.mark.capability("SUP-04")
def test_a_lost_run_tells_what_was_heard_of_it(stage: Stage, echo: Agent, submit: Submit) -> None:
    run = submit(echo, "hello")
    OutputChunk.objects.create(execution=run, seq=1, stream="out", at=run.created_at, text="Halfway. ")
    OutputChunk.objects.create(execution=run, seq=2, stream="out", at=run.created_at, text="Almost.")
    Execution.objects.filter(pk=run.pk).update(
        state="running", moves=1, slot=1, start_time=run.created_at, runner_id=silent().pk
    )  # fmt: skip
    assert reaping.reap() == 1
    body = of(stage.admin, run).body
    assert (body["status"], body["error_category"], body["state"]) == ("failure", "SystemError", "idle")
    result = body["result"]
    assert (result["status"], result["output"], result["output_bytes"]) == ("failure", "Halfway. Almost.", 16)
    assert result["error"] == body["error_message"] != ""


@pytest.mark.both_databases
def test_lists_are_filtered(stage: Stage, make_agent: Make, submit: Submit) -> None:
    echo, other = make_agent(identity=stage.bot), make_agent(name="other", identity=stage.other)
    queued, stopped, running = submit(echo, "x" * 2000), submit(echo), submit(other, trigger="manual")
    cancelling.cancel(actor=cast.admin(), execution=stopped, reason="For the test")
    Execution.objects.filter(pk=running.pk).update(state="running", error_category="Transient")

    def found(**query: Any) -> list[str]:
        body = stage.admin.get("supervisor/executions", **query).body
        assert body["total"] == len(body["executions"]) or "limit" in query
        return [one["id"] for one in body["executions"]]

    every = [str(run.pk) for run in (running, stopped, queued)]
    assert found() == every
    assert found(limit=1, offset=1) == every[1:2]
    assert found(agent_id=str(echo.pk)) == found(identity_id=str(stage.bot.pk)) == every[1:]
    assert found(state="queued") == every[2:]
    assert found(state="cancelled") == found(status="cancelled") == every[1:2]
    assert found(active="true") == found(trigger="manual") == found(error_category="Transient") == every[:1]
    assert found(active="false") == every[1:]
    assert found(schedule_id=str(echo.pk)) == found(task_id=str(echo.pk)) == found(state="completed") == []
    listed = stage.admin.get("supervisor/executions").body["executions"]
    assert [len(one["input"]) for one in listed] == [0, 0, 1000]
    assert [one["queue_position"] for one in listed] == [None, None, 0]
    wrong: Body = {"state": "done", "status": "x", "trigger": "x", "error_category": "x", "active": "x",
                   "agent_id": "x", "limit": 0, "offset": -1}  # fmt: skip
    for name, value in wrong.items():
        assert stage.admin.get("supervisor/executions", **{name: value}).fields == [name]


@pytest.mark.both_databases
@pytest.mark.capability("NHI-08")
def test_a_run_is_seen_by_those_it_concerns(stage: Stage, make_agent: Make) -> None:
    agent = make_agent(identity=cast.agent("target", owner=cast.user("nina")))
    cast.nhi_grant(stage.bot, agent.identity)
    cast.user_grant(agent.identity, cast.user("ulf"))
    asked = stage.agent.post(f"supervisor/agents/{agent.pk}/execute", {"input": "x"}).body["id"]
    place = f"supervisor/executions/{asked}"
    sees = (stage.agent, stage.person("nina"), stage.person("olga"), stage.person("ada", "auditor"), stage.admin)
    for caller in sees:
        assert caller.get(place).status == 200
        assert caller.get("supervisor/executions").body["total"] == 1
    for caller in (stage.stranger, stage.person("ulf"), stage.person("guest")):
        assert caller.get("supervisor/executions").body["total"] == 0
        for path in (place, f"{place}/wait", f"{place}/output"):
            assert caller.get(path).is_refused(404, "NotFound")
        for answer in (caller.post(f"{place}/cancel", {"x": 1}), caller.send("DELETE", place)):
            assert answer.is_refused(404, "NotFound")
    assert stage.person("tom", "approver").send("DELETE", place).is_refused(403, "Unauthorized")
    assert stage.person("ada").send("DELETE", place).is_refused(403, "Unauthorized", "only_reads")
    assert stage.admin.post(f"{place}/cancel", {"state": "idle"}).fields == ["state"]
    assert stage.agent.send("DELETE", place).status == 200
