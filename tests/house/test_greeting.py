"""What `up` prints is enough to sign in and to make a first call."""

import io
import json
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.management.base import OutputWrapper

import mcp.demo
import nhi.demo
import supervisor.demo
from config.management.commands import up
from supervisor import waking
from supervisor.models import Agent
from tests.services.house import House, embedded
from tests.services.peers import sdk_client
from tests.services.waiting import wait_for

pytestmark = [pytest.mark.capability("OPS-01"), pytest.mark.xdist_group("house")]

PEOPLE = ("admin", "mara", "tom", "olga", "ada")


@pytest.fixture(scope="module")
def fresh_house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """One in which nobody has given the demo's agents other credentials than those it printed."""
    with embedded(Path(tmp_path_factory.mktemp("fresh"))) as house:
        house.wait_until_ready()
        yield house
        assert house.stop() == 0


def printed_call(house: House) -> list[str]:
    found = re.search(r"^Try: (curl .*)$", house.output, re.MULTILINE)
    assert found, house.output
    return shlex.split(found[1])


def test_people_and_passwords_are_printed(running_house: House) -> None:
    for person in PEOPLE:
        assert re.search(rf"^ +{person} +\S{{12,}} ", running_house.output, re.MULTILINE), person
    assert f"{running_house.url}/admin/" in running_house.output
    assert "Sign in as mara" in running_house.output, "as README.md says too"


def test_the_printed_call_works_until_the_next_start_which_shows_no_password(tmp_path: Path) -> None:
    with embedded(tmp_path) as house:
        house.wait_until_ready()
        passwords = re.findall(r"^  \w+ +(\S{12,}) ", house.output, re.MULTILINE)
        answer = subprocess.run([*printed_call(house), "-s"], capture_output=True, text=True, check=True, timeout=20)
        me = json.loads(answer.stdout)
        assert (me["kind"], me["name"], me["state"]) == ("agent", "deploy-bot", "active")
        before = printed_call(house)[2].removeprefix("Authorization: Bearer ")
        assert len(passwords) == len(PEOPLE)
        assert house.stop() == 0
        house.start()
        house.wait_until_ready()
        after = printed_call(house)[2].removeprefix("Authorization: Bearer ")
        assert not any(password in house.output for password in passwords)
        assert before != after
        assert house.get("/api/nhi/me", Authorization=f"Bearer {before}")[0] == 401
        assert house.get("/api/nhi/me", Authorization=f"Bearer {after}")[0] == 200
        assert house.stop() == 0
    everything = b"".join(file.read_bytes() for file in house.data.rglob("*") if file.is_file())
    for secret in (*passwords, before, after):
        assert secret.encode() not in everything


@pytest.mark.django_db
def test_what_the_list_of_programs_leaves_out_is_not_offered(
    tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the demo was seeded before there was a list."""
    nhi.demo.seed()
    monkeypatch.setattr(waking, "wake", lambda: None)
    assert supervisor.demo.seed() == Agent.objects.get(name="summarise")
    settings.EXECUTABLE_ALLOWLIST = tmp_path / "allowed"
    settings.EXECUTABLE_ALLOWLIST.touch(0o600)
    seeds = {"seed_gateway_demo": mcp.demo.seed, "seed_runs_demo": supervisor.demo.seed}
    monkeypatch.setattr(up.Command, "seed", lambda _, command, what: str(seeds.get(command, str)() or ""))
    said = io.StringIO()
    up.Command(stdout=OutputWrapper(said)).greet_callers("nhi_agt_x")
    assert "curl" not in said.getvalue()
    assert "EXECUTABLE_ALLOWLIST" in said.getvalue()
    assert "MCP client" in said.getvalue()


@pytest.mark.capability("MCP-15", "MCP-07")
def test_the_printed_call_of_a_tool_works(fresh_house: House) -> None:
    found = re.search(r"^Call a tool: (curl .*)$", fresh_house.output, re.MULTILINE)
    assert found, fresh_house.output
    answer = subprocess.run([*shlex.split(found[1]), "-s"], capture_output=True, text=True, check=True, timeout=20)
    told = json.loads(answer.stdout)
    assert "result" in told, told
    assert told["result"]["structured_content"]["title"] == "Water the plants"


@pytest.mark.capability("MCP-15", "MCP-06")
def test_the_printed_client_configuration_lists_the_demos_tools(fresh_house: House) -> None:
    found = re.search(r"^MCP client: (\{.*\})$", fresh_house.output, re.MULTILINE)
    assert found, fresh_house.output
    server = json.loads(found[1])["mcpServers"]["gatehouse"]
    listed = sdk_client(server["url"], server["headers"]["Authorization"].removeprefix("Bearer "), "--list")
    assert "tools" in listed, listed
    names = {tool["name"] for tool in listed["tools"]}
    assert {"todo__create_todo", "todo__list_todos", "todo__search_todos"} == names, "the changed tool is not listed"


@pytest.mark.capability("A2A-07", "A2A-12")
def test_the_printed_task_is_done_and_so_is_the_demos_within_another(fresh_house: House) -> None:
    """By the worker of the house, with nobody else about: an agent's program is asked, and asks another agent's."""
    found = re.search(r"^Send a task: (curl .*)$", fresh_house.output, re.MULTILINE)
    assert found, fresh_house.output
    sent = subprocess.run([*shlex.split(found[1]), "-s"], capture_output=True, text=True, check=True, timeout=20)
    asked = json.loads(sent.stdout)["task_id"]
    token = shlex.split(found[1])[2].removeprefix("Authorization: ")
    # In this order: what goes from one to the other between the two is found by the second.
    wait_for(lambda: _tasks(fresh_house, token, "pending") + _tasks(fresh_house, token, "running") == [], 30, "done")
    done = {task["id"]: task for task in _tasks(fresh_house, token, "completed")}
    assert "It begins: It rained." in done[asked]["result"]["text"]
    [brief] = [task for task in done.values() if task["task_type"] == "brief"]
    assert brief["result"]["text"].startswith("triage-bot says:\nLines: 1\n")
    parts = [json.loads(fresh_house.get(f"/api/nhi/a2a/tasks/{pk}", Authorization=token)[1]) for pk in done]
    [part] = [task for task in parts if task["parent_task_id"] == brief["id"]]
    assert [link["name"] for link in part["chain"]] == ["mara", "deploy-bot"]


def _tasks(house: House, token: str, state: str) -> list[dict[str, Any]]:
    status, body = house.get(f"/api/nhi/a2a/tasks?state={state}", Authorization=token)
    assert status == 200, body
    return list(json.loads(body)["tasks"])
