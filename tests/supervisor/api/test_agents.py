"""Agents over the API: every field of the seed goes in and comes out, and what cannot be taken is named."""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from config import environment
from supervisor.models import Agent
from tests.api.callers import ABSENT
from tests.api.conftest import Stage
from tests.nhi import cast

pytestmark = [pytest.mark.capability("SUP-01", "SUP-10"), pytest.mark.both_databases]
Body = dict[str, Any]
SECRET = "sk-live-4f53cda18c2baa0c0354bb5f9a3ecbe5"


@pytest.fixture
def body(stage: Stage, program: Callable[[str], str]) -> Body:
    """What an agent cannot do without."""
    return {
        "identity_id": str(stage.bot.pk),
        "name": "summarise",
        "executable_path": program("#!/bin/sh\ncat\n"),
        "mode": "task",
        "input_pattern": "stdin",
        "output_pattern": "stdout",
        "access_type": "read-only",
    }


def test_what_is_left_out_is_as_documented(stage: Stage, body: Body) -> None:
    made = stage.admin.post("supervisor/agents", body)
    assert made.status == 201
    usual = {
        "kind": "process", "agent_type": "stdin-stdout", "working_directory": "", "envs": {}, "cli_args": [],
        "input_file_template": "", "output_file_template": "", "max_concurrent_executions": 10, "timeout": "300s",
        "session_timeout": 1800, "idle_timeout": 300, "keep_alive": False, "max_retries": 3, "allowed_env_vars": [],
        "queue_depth": 10, "queue_wait": 1800, "deduplicate": False, "max_processes": 64, "enabled": True,
        "max_memory_mb": 2048, "max_cpu_seconds": None, "identity_name": "bot", "runs": 0, "created_by": "mara",
    }  # fmt: skip
    assert made.body == {**made.body, **body, **usual}
    assert stage.admin.get(f"supervisor/agents/{made.body['id']}").body == made.body
    assert cast.events(Agent.objects.get()) == ["agent.added"]


def test_every_field_goes_in_and_comes_out(stage: Stage, body: Body, shared_directory: Path) -> None:
    given = {
        **body, "agent_type": "file-input", "kind": "process", "input_pattern": "file", "output_pattern": "file",
        "input_file_template": "{{execution_id}}.in", "output_file_template": "{{agent_id}}-{{timestamp}}.out",
        "working_directory": str(shared_directory), "envs": {"TONE": "dry", "API_TOKEN": SECRET},
        "cli_args": {"--depth": 3, "--fast": True, "--slow": False, "--tone": "{{tone}}", "--all": None},
        "access_type": "read-write", "timeout": "45s", "session_timeout": 90, "idle_timeout": "60 s",
        "queue_wait": 30, "queue_depth": 2, "max_retries": 1, "allowed_env_vars": ["DEPTH"], "deduplicate": True,
        "keep_alive": True, "enabled": False, "max_processes": 8, "max_memory_mb": 512, "max_cpu_seconds": 90,
    }  # fmt: skip
    made = stage.admin.post("supervisor/agents", given)
    assert made.status == 201, made.body
    changed = {
        "agent_type": "file", "timeout": "45s", "session_timeout": 90, "idle_timeout": 60, "queue_wait": 30,
        "cli_args": ["--depth", "3", "--fast", "--tone", "{{tone}}", "--all"], "max_concurrent_executions": 1,
        "envs": {**made.body["envs"], "TONE": "dry"},
    }  # fmt: skip
    assert made.body == {**made.body, **given, **changed}
    assert SECRET not in json.dumps(made.body)
    assert SECRET not in json.dumps(stage.admin.get("audit-events").body)


@pytest.mark.parametrize(
    "wrong, fields",
    [
        ({"executable_path": "/bin/true"}, ["executable_path"]),
        ({"executable_path": "summarise"}, ["executable_path"]),
        ({"name": ""}, ["name"]),
        ({"identity_id": ABSENT}, ["identity_id"]),
        ({"mode": "batch"}, ["mode"]),
        ({"kind": "model"}, ["executable_path", "model", "base_url"]),
        ({"input_pattern": "socket", "output_pattern": 1}, ["input_pattern", "output_pattern"]),
        ({"agent_type": "json-rpc"}, ["agent_type"]),
        ({"access_type": "read-write", "max_concurrent_executions": 2}, ["max_concurrent_executions"]),
        ({"timeout": 0, "max_retries": -1}, ["timeout", "max_retries"]),
        ({"timeout": "1.5s"}, ["timeout"]),
        ({"max_memory_mb": 15, "max_cpu_seconds": 0}, ["max_memory_mb", "max_cpu_seconds"]),
        ({"max_memory_mb": (1 << 20) + 1, "max_cpu_seconds": -1}, ["max_memory_mb", "max_cpu_seconds"]),
        ({"max_memory_mb": "512", "max_cpu_seconds": 1.5}, ["max_memory_mb", "max_cpu_seconds"]),
        ({"max_processes": None}, ["max_processes"]),
        ({"timeout": "soon"}, ["timeout"]),
        ({"timeout": True}, ["timeout"]),
        ({"cli_args": ["--depth", 3]}, ["cli_args"]),
        ({"cli_args": {"--depth": [3]}}, ["cli_args"]),
        ({"cli_args": ["{{ bad", "fine", "{{ a.b }}", "{{ __class__ }}"]}, ["cli_args.0", "cli_args.2", "cli_args.3"]),
        ({"timeout": "\N{FULLWIDTH DIGIT ONE}s"}, ["timeout"]),
        ({"envs": {"LD_PRELOAD": "x", "TONE": "dry"}}, ["envs.LD_PRELOAD"]),
        ({"envs": {"TONE": 1}}, ["envs.TONE"]),
        ({"allowed_env_vars": ["PYTHONPATH"]}, ["allowed_env_vars.PYTHONPATH"]),
        ({"working_directory": "/etc"}, ["working_directory"]),
        ({"input_file_template": "../x"}, ["input_file_template"]),
        ({"mode": "interactive", "input_pattern": "file"}, ["input_pattern"]),
        ({"runs": 5, "created_by": "x", "sealed_envs": "x"}, ["runs", "created_by", "sealed_envs"]),
    ],
    ids=lambda part: json.dumps(part) if isinstance(part, dict) else "",
)
def test_what_cannot_be_taken_is_named(stage: Stage, body: Body, wrong: Body, fields: list[str]) -> None:
    refused = stage.admin.post("supervisor/agents", {**body, **wrong})
    assert refused.is_refused(400, "InvalidParameters")
    assert refused.fields == fields
    assert not Agent.objects.exists()


def test_limits_are_set_changed_and_taken_away(stage: Stage, body: Body) -> None:
    made = stage.admin.post("supervisor/agents", {**body, "max_memory_mb": None, "max_cpu_seconds": 30})
    assert (made.status, made.body["max_memory_mb"], made.body["max_cpu_seconds"]) == (201, None, 30)
    where = f"supervisor/agents/{made.body['id']}"
    changed = stage.admin.patch(where, {"max_memory_mb": 300, "max_cpu_seconds": None}).body
    assert (changed["max_memory_mb"], changed["max_cpu_seconds"]) == (300, None)
    refused = stage.admin.patch(where, {"max_memory_mb": 1})
    assert refused.is_refused(400, "InvalidParameters")
    assert refused.fields == ["max_memory_mb"]
    assert stage.admin.get(where).body == changed


def test_a_program_is_kept_by_its_real_name(stage: Stage, body: Body) -> None:
    program = Path(body["executable_path"])
    link = program.with_name("link")
    link.symlink_to(program)
    for number, name in enumerate((link, program.parent / ".." / program.parent.name / program.name)):
        made = stage.admin.post("supervisor/agents", {**body, "name": f"by {number}", "executable_path": str(name)})
        assert (made.status, made.body["executable_path"]) == (201, str(program))
    changed = stage.admin.patch(f"supervisor/agents/{made.body['id']}", {"executable_path": str(link)})
    assert changed.body["executable_path"] == str(program)


def test_words_that_only_look_like_parameters_are_arguments(stage: Stage, body: Body) -> None:
    words = ['{"a": {"b": 1}}', "{x}", "a}}", "{{topic}}-{{ n_1 }}"]
    assert stage.admin.post("supervisor/agents", {**body, "cli_args": words}).body["cli_args"] == words


@pytest.mark.parametrize(("closed", "said"), [("directory", "may not enter"), ("program", "may not execute")])
def test_a_program_that_runs_could_not_reach_is_refused_when_it_is_added(
    stage: Stage, body: Body, settings: Any, closed: str, said: str
) -> None:
    settings.RUN_AS = environment.Account("runner", os.getuid() + 4000, os.getgid() + 4000)
    assert stage.admin.post("supervisor/agents", {**body, "name": "open"}).status == 201
    program = Path(body["executable_path"])
    (program.parent if closed == "directory" else program).chmod(0o700)
    refused = stage.admin.post("supervisor/agents", body)
    assert refused.fields == ["executable_path"]
    assert f"runner, as whom runs happen, {said}" in refused.body["message"]


def test_an_agent_belongs_to_an_identity_of_kind_agent(stage: Stage, body: Body) -> None:
    refused = stage.admin.post("supervisor/agents", {**body, "identity_id": str(stage.account.pk)})
    assert (refused.status, refused.fields) == (400, ["identity_id"])


def test_names_are_taken_once(stage: Stage, body: Body) -> None:
    stage.admin.post("supervisor/agents", body)
    assert stage.admin.post("supervisor/agents", body).is_refused(409, "Conflict", "duplicate")
    other = stage.admin.post("supervisor/agents", {**body, "name": "other"}).body
    taken = stage.admin.patch(f"supervisor/agents/{other['id']}", {"name": "summarise"})
    assert taken.is_refused(409, "Conflict", "duplicate")


def test_a_change_is_of_what_is_sent_alone(stage: Stage, echo: Agent) -> None:
    place = f"supervisor/agents/{echo.pk}"
    before = stage.admin.get(place).body
    sent = {"timeout": "60s", "envs": {"TONE": "dry"}, "cli_args": ["--short"], "max_concurrent_executions": None}
    after = stage.admin.patch(place, sent)
    assert after.status == 200, after.body
    changed = {**sent, "updated_at": after.body["updated_at"]}
    assert after.body == {**before, **changed}
    for fixed in ("identity_id", "kind", "id"):
        assert stage.admin.patch(place, {fixed: "process"}).fields == [fixed]
    assert stage.admin.patch(place, {"agent_type": "json-rpc"}).fields == ["agent_type"]
    assert stage.admin.patch(place, {"agent_type": "json-rpc", "input_pattern": "json-rpc",
                                     "output_pattern": "json-rpc"}).status == 200  # fmt: skip
    assert cast.events(echo) == ["agent.added", "agent.changed", "agent.changed"]


def test_an_agent_that_is_made_to_write_runs_alone(stage: Stage, echo: Agent) -> None:
    changed = stage.admin.patch(f"supervisor/agents/{echo.pk}", {"access_type": "read-write"})
    assert (changed.status, changed.body["max_concurrent_executions"]) == (200, 1)


def test_switching_needs_a_reason_and_a_change(stage: Stage, echo: Agent) -> None:
    place = f"supervisor/agents/{echo.pk}"
    operator = stage.person("olga")
    assert operator.post(f"{place}/disable", {}).fields == ["reason"]
    assert operator.post(f"{place}/disable", {"reason": "Too costly"}).body["enabled"] is False
    assert operator.post(f"{place}/disable", {"reason": "Again"}).is_refused(409, "Conflict")
    assert operator.post(f"{place}/enable", {"reason": "Paid for"}).body["enabled"] is True
    assert operator.post(f"{place}/enable", {"reason": "Again"}).is_refused(409, "Conflict")
    assert cast.events(echo) == ["agent.added", "agent.disabled", "agent.enabled"]


@pytest.mark.capability("NHI-08")
def test_who_may_do_what(stage: Stage, echo: Agent, body: Body) -> None:
    place = f"supervisor/agents/{echo.pk}"
    operator, approver = stage.person("olga"), stage.person("tom", "approver")
    for reader in (operator, approver):
        assert reader.get(place).status == 200
        assert reader.post("supervisor/agents", body).is_refused(403, "Unauthorized")
        assert reader.patch(place, {"timeout": 5}).is_refused(403, "Unauthorized")
    assert approver.post(f"{place}/disable", {"reason": "x"}).is_refused(403, "Unauthorized")
    for stranger in (stage.stranger, stage.person("guest")):
        assert stranger.get("supervisor/agents").body["total"] == 0
        assert stranger.get(place).is_refused(404, "NotFound")
    itself = stage.agent
    assert itself.get(place).status == 200
    assert itself.patch(place, {"timeout": 5}).is_refused(403, "Unauthorized")
    owned = cast.agent("ninas", owner=cast.user("nina"))
    Agent.objects.filter(pk=echo.pk).update(identity=owned)
    assert stage.person("nina").get("supervisor/agents").body["total"] == 1


@pytest.mark.capability("NHI-08")
def test_who_may_merely_run_one_is_not_told_what_it_is_made_of(stage: Stage, make_agent: Callable[..., Agent]) -> None:
    owned = cast.agent("ninas", owner=cast.user("nina"))
    words = ["--db", "postgres://u:hunter3@db/x"]
    agent = make_agent(identity=owned, cli_args=words, envs={"TONE": "dry"}, queue_depth=3)
    cast.nhi_grant(stage.bot, owned)
    cast.user_grant(owned, cast.user("ulf"))
    place = f"supervisor/agents/{agent.pk}"
    whole = stage.admin.get(place).body
    assert (whole["cli_args"], whole["envs"]) == (["--db", "postgres://u:[REDACTED:SECRET]@db/x"], {"TONE": "dry"})
    told = {
        "executable_path": "", "working_directory": "", "envs": {}, "cli_args": [], "base_url": "", "instructions": "",
    }  # fmt: skip
    for caller, seen in (
        (stage.person("nina"), whole), (stage.person("ada", "auditor"), whole),
        (stage.agent, {**whole, **told}), (stage.person("ulf"), {**whole, **told}),
    ):  # fmt: skip
        assert caller.get(place).body == seen
        assert caller.get("supervisor/agents").body["agents"] == [seen]


def test_lists_are_filtered(stage: Stage, make_agent: Callable[..., Agent]) -> None:
    make_agent(name="reads", identity=stage.bot)
    make_agent(name="writes", identity=stage.other, access_type="read-write", enabled=False)
    make_agent(name="talks", identity=stage.bot, mode="interactive")

    def names(**query: Any) -> list[str]:
        return [one["name"] for one in stage.admin.get("supervisor/agents", **query).body["agents"]]

    assert names() == ["reads", "talks", "writes"]
    assert names(limit=1, offset=1) == ["talks"]
    assert names(name="talks") == names(mode="interactive") == ["talks"]
    assert names(access_type="read-write") == names(enabled="false") == ["writes"]
    assert names(identity_id=str(stage.other.pk)) == ["writes"]
    for wrong in ({"mode": "x"}, {"access_type": "x"}, {"enabled": "x"}, {"identity_id": "x"}, {"limit": 0}):
        assert stage.admin.get("supervisor/agents", **wrong).fields == [*wrong]


def test_without_a_list_only_an_example_may_run(stage: Stage, body: Body, settings: Any) -> None:
    settings.EXECUTABLE_ALLOWLIST = None
    examples = settings.BASE_DIR / "examples" / "agents"
    fine = {**body, "executable_path": str(examples / "summarise.py")}
    assert stage.admin.post("supervisor/agents", fine).status == 201
    for wrong in ({"executable_path": "/bin/sh"}, {"executable_path": sys.executable, "cli_args": ["-c", "print()"]}):
        assert stage.admin.post("supervisor/agents", {**body, **wrong}).fields == ["executable_path"]
