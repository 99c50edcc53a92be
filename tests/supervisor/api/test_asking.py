"""Asking for a run over the API: who may, what is refused, and what the answer promises."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nhi.access import grants
from nhi.actors import SYSTEM
from nhi.identities import lifecycle
from supervisor.models import Agent, Execution, Runner
from tests.api.callers import Caller, Reply
from tests.api.conftest import Stage
from tests.nhi import cast
from tests.record.limits import LIMIT, flushed, limited

pytestmark = [pytest.mark.capability("SUP-10"), pytest.mark.both_databases]
Body = dict[str, Any]
MEBIBYTE = 1024 * 1024


def execute(caller: Caller, agent: Agent, said: str = "hello", **more: Any) -> Reply:
    return caller.post(f"supervisor/agents/{agent.pk}/execute", {"input": said, **more})


def test_the_answer_says_where_the_run_stands(stage: Stage, echo: Agent) -> None:
    first, second = execute(stage.admin, echo), execute(stage.admin, echo)
    for position, answer in enumerate((first, second)):
        assert answer.status == 202
        assert answer.body == {
            "id": answer.body["id"], "agent_id": str(echo.pk), "state": "queued", "status": None,
            "queue_position": position, "deduplicated": False,
        }  # fmt: skip
    status = stage.admin.get(f"supervisor/agents/{echo.pk}/status").body
    assert status == {
        "running": 0, "queued": 2, "pool": {"size": 10, "used": 0}, "queue": {"depth": 10, "wait": 1800},
        "enabled": True,
    }  # fmt: skip
    found = stage.admin.get(f"supervisor/executions/{second.body['id']}").body
    assert (found["state"], found["queue_position"], found["result"], found["trigger"]) == ("queued", 1, None, "api")
    assert cast.events(echo) == ["agent.added", "run.asked", "run.asked"]


@pytest.mark.capability("SUP-12")
def test_the_same_input_within_a_minute_may_share_one_run(stage: Stage, echo: Agent) -> None:
    Agent.objects.filter(pk=echo.pk).update(deduplicate=True)
    first, again, other = execute(stage.admin, echo), execute(stage.admin, echo), execute(stage.admin, echo, "other")
    assert again.body == {**first.body, "deduplicated": True}
    assert other.body["id"] != first.body["id"]
    assert not other.body["deduplicated"]


@pytest.mark.parametrize(
    "given, fields",
    [
        ({}, ["input"]),
        ({"input": {"text": "x"}}, ["input"]),
        ({"input": "x", "parameters": []}, ["parameters"]),
        ({"input": "x"}, ["parameters.tone"]),
        ({"input": "x", "parameters": {"tone": ["dry"]}}, ["parameters.tone"]),
        ({"input": "x", "parameters": {"tone": "--all"}}, ["parameters.tone"]),
        ({"input": "x", "parameters": {"tone": "dry"}, "env_vars": {"OTHER": "1"}}, ["env_vars.OTHER"]),
        ({"input": "x", "parameters": {"tone": "dry"}, "env_vars": {"LD_PRELOAD": "1"}}, ["env_vars.LD_PRELOAD"] * 2),
        ({"input": "x", "parameters": {"tone": "dry"}, "working_directory": "/etc"}, ["working_directory"]),
        ({"input": "x", "parameters": {"tone": "dry"}, "timeout": 3600}, ["timeout"]),
        ({"input": "x", "state": "idle", "trigger": "manual"}, ["state", "trigger"]),
    ],
    ids=lambda part: json.dumps(part) if isinstance(part, dict) else "",
)
def test_what_cannot_be_taken_is_named(
    stage: Stage, make_agent: Callable[..., Agent], given: Body, fields: list[str]
) -> None:
    agent = make_agent(identity=stage.bot, cli_args=["{{tone}}"], allowed_env_vars=["DEPTH"])
    refused = stage.admin.post(f"supervisor/agents/{agent.pk}/execute", given)
    assert refused.is_refused(400, "InvalidParameters")
    assert refused.fields == fields
    assert not Execution.objects.exists()


def test_what_is_allowed_is_kept(stage: Stage, make_agent: Callable[..., Agent], shared_directory: Path) -> None:
    agent = make_agent(identity=stage.bot, allowed_env_vars=["DEPTH"])
    asked = {"env_vars": {"DEPTH": "3"}, "working_directory": str(shared_directory), "timeout": "20s"}
    run = execute(stage.admin, agent, parameters={"tone": "dry"}, **asked).body["id"]
    found = stage.admin.get(f"supervisor/executions/{run}").body
    assert (found["timeout"], found["working_directory"]) == ("20s", str(shared_directory))
    assert (found["parameters"], found["context"]["env_vars"]) == ({"tone": "dry"}, ["DEPTH"])


def test_more_than_a_mebibyte_is_refused(stage: Stage, echo: Agent) -> None:
    assert execute(stage.admin, echo, "x" * MEBIBYTE).is_refused(413, "TooLarge")


def test_only_task_agents_that_are_on_are_run(stage: Stage, make_agent: Callable[..., Agent]) -> None:
    talks = make_agent(name="talks", identity=stage.bot, mode="interactive")
    assert execute(stage.admin, talks).is_refused(409, "Conflict")
    off = make_agent(name="off", identity=stage.bot, enabled=False)
    assert execute(stage.admin, off).is_refused(409, "Conflict", "agent_disabled")


@pytest.mark.capability("SUP-05")
def test_a_full_queue_is_a_503_that_says_when_to_try_again(stage: Stage, make_agent: Callable[..., Agent]) -> None:
    agent = make_agent(identity=stage.bot, max_concurrent_executions=1, queue_depth=0)
    assert execute(stage.admin, agent).status == 202
    refused = execute(stage.admin, agent)
    assert refused.is_refused(503, "ExecutionFailed", "queue_full")
    assert int(refused.headers["Retry-After"]) >= 1
    assert Execution.objects.count() == 1


@pytest.mark.capability("SUP-12")
@pytest.mark.parametrize("strain", [{"memory_percent": 99}, {"disk_free_mb": 1}, {"load_per_cpu": 500}])
def test_a_strained_host_is_a_503_that_says_why(stage: Stage, echo: Agent, strain: dict[str, float]) -> None:
    well = {"memory_percent": 10, "disk_free_mb": 9999, "load_per_cpu": 0.1}
    Runner.objects.create(host="here", pid=1, process_start=0, boot="x", capacity=1, **{**well, **strain})
    refused = execute(stage.admin, echo)
    assert refused.is_refused(503, "ExecutionFailed", "overloaded")
    assert int(refused.headers["Retry-After"]) >= 1
    Runner.objects.create(host="there", pid=1, process_start=0, boot="x", capacity=1, **well)
    assert execute(stage.admin, echo).status == 202


def test_an_agent_of_an_identity_that_may_not_act_is_not_run(stage: Stage, echo: Agent) -> None:
    lifecycle.suspend(actor=cast.admin(), identity=stage.bot, reason="Odd calls")
    assert execute(stage.admin, echo).is_refused(403, "Unauthorized", "target_unusable")
    assert execute(stage.person("olga"), echo).is_refused(403, "Unauthorized", "target_unusable")
    assert "run.refused" in cast.events(echo)


@pytest.mark.capability("NHI-08")
def test_people_run_what_is_theirs_or_what_their_role_lets_them(stage: Stage, make_agent: Callable[..., Agent]) -> None:
    agent = make_agent(identity=cast.agent("ninas", owner=cast.user("nina")))
    nina, ulf = stage.person("nina"), stage.person("ulf")
    assert execute(nina, agent).status == 202
    assert execute(ulf, agent).is_refused(404, "NotFound")
    given = cast.user_grant(agent.identity, cast.user("ulf"))
    assert execute(ulf, agent).status == 202
    grants.revoke(actor=SYSTEM, grant=given, reason="Over")
    assert execute(ulf, agent).is_refused(404, "NotFound")
    assert execute(stage.person("olga"), agent).status == 202
    assert execute(stage.person("tom", "approver"), agent).is_refused(403, "Unauthorized", "no_grant")
    assert execute(stage.person("ada", "auditor", "operator"), agent).is_refused(403, "Unauthorized", "only_reads")


@pytest.mark.capability("NHI-08")
def test_identities_run_what_a_grant_lets_them(stage: Stage, make_agent: Callable[..., Agent]) -> None:
    agent = make_agent(identity=cast.agent("target"))
    assert execute(stage.agent, agent).is_refused(404, "NotFound")
    grant = cast.nhi_grant(stage.bot, agent.identity)
    taken = execute(stage.agent, agent)
    assert taken.status == 202
    found = stage.agent.get(f"supervisor/executions/{taken.body['id']}").body
    assert found["started_by"] == {"kind": "identity", "id": str(stage.bot.pk), "name": "bot"}
    assert found["context"]["by"]["grant"] == str(grant.pk)
    grants.revoke(actor=SYSTEM, grant=grant, reason="Over")
    assert execute(stage.agent, agent).is_refused(403, "Unauthorized", "grant_revoked")
    assert stage.agent.get(f"supervisor/executions/{taken.body['id']}").status == 200
    assert execute(stage.stranger, agent).is_refused(404, "NotFound")


def test_what_one_wants_is_told_to_those_alone_who_may_run_it(stage: Stage, make_agent: Callable[..., Agent]) -> None:
    wants = make_agent(identity=stage.bot, cli_args=["{{tone}}"])
    talks = make_agent(name="talks", identity=stage.bot, mode="interactive")
    reader = stage.person("tom", "approver")
    for agent in (wants, talks):
        assert execute(reader, agent).is_refused(403, "Unauthorized")
        opening = reader.post("supervisor/sessions", {"agent_id": str(agent.pk)})
        assert opening.is_refused(403, "Unauthorized")


def test_a_grant_may_be_for_some_actions_and_arguments(stage: Stage, make_agent: Callable[..., Agent]) -> None:
    agent = make_agent(identity=cast.agent("target"))
    grant = cast.nhi_grant(stage.bot, agent.identity, allowed_actions=["session"])
    assert execute(stage.agent, agent).is_refused(403, "Unauthorized", "action_not_allowed")
    grants.revoke(actor=SYSTEM, grant=grant, reason="Another follows")
    cast.nhi_grant(stage.bot, agent.identity, allowed_actions=["execute"])
    assert execute(stage.agent, agent).status == 202


def test_a_service_account_with_a_role_runs_what_people_of_it_run(stage: Stage, echo: Agent) -> None:
    assert execute(stage.automation("operator"), echo).status == 202


@pytest.mark.capability("AUD-02")
def test_refusals_in_a_loop_are_counted(stage: Stage, echo: Agent) -> None:
    lifecycle.suspend(actor=cast.admin(), identity=stage.bot, reason="Odd calls")
    with limited():
        for _ in range(LIMIT + 2):
            assert execute(stage.admin, echo).is_refused(403, "Unauthorized", "target_unusable")
        assert cast.events(echo).count("run.refused") == LIMIT
        counted = flushed("run.refused")
    assert (counted.details["count"], counted.subject_id) == (2, echo.pk)
