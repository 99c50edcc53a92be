"""Whole stories over the API alone: from a server to a to-do, and a call that waits for a person."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from subprocess import Popen
from typing import Any

import pytest

from mcp.models import Tool
from tests.api.conftest import Stage
from tests.api.mcp.conftest import call, row
from tests.mcp.peer import Peer
from tests.services.house import ROOT
from tests.services.postgresql import free_port
from tests.services.waiting import wait_for

pytestmark = [
    pytest.mark.capability("MCP-07"),
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("clerk"),
]


@pytest.mark.capability("NHI-14")
def test_a_call_waits_for_a_person(held: Stage, peer: Peer) -> None:
    Tool.objects.update(requires_approval=True)
    asked = call(held.agent, parameters={"x": 1})
    assert (asked.status, set(asked.body)) == (202, {"call_id", "status", "expires_at"})
    assert asked.body["status"] == "pending_approval"
    assert asked.body["expires_at"].endswith("Z")
    assert (row(asked).status, row(asked).reason) == ("permission_denied", "approval_required")
    again = call(held.agent, parameters={"x": 1})
    assert again.status == 202
    place = f"mcp/calls/{again.body['call_id']}"
    assert held.agent.get(place).body["status"] == "pending"
    assert held.stranger.get(place).is_refused(404, "NotFound")
    tom = held.person("tom", "approver")
    waiting = tom.get("approvals", state="pending").body["approvals"]
    assert [(one["attempts"], one["arguments"]) for one in waiting] == [(2, {"x": 1})]
    assert tom.post(f"approvals/{waiting[0]['id']}/approve", {"reason": "Fine"}).status == 200
    assert held.agent.get(place).body["status"] == "approved"
    assert call(held.agent, parameters={"x": 2}).status == 202
    made = call(held.agent, parameters={"x": 1})
    assert made.status == 200
    said = held.agent.get(place).body
    assert (said["status"], said["used_by"]) == ("used", made.body["call_id"])
    assert held.agent.get(f"mcp/calls/{made.body['call_id']}").body["status"] == "done"
    assert call(held.agent, parameters={"x": 1}).status == 202
    assert len(peer.calls) == 1


@pytest.fixture
def todo(settings: Any, tmp_path: Path) -> Iterator[str]:
    """The bundled to-do server, in a process of its own."""
    port = free_port()
    settings.EGRESS_ALLOW = frozenset({f"127.0.0.1:{port}"})
    running = Popen([sys.executable, str(ROOT / "examples/todo_server.py"), "--http", str(port)], cwd=tmp_path)
    try:
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        running.terminate()
        running.wait(10)


@pytest.mark.capability("MCP-15", "MCP-04")
def test_from_a_server_to_a_todo(open_stage: Stage, todo: str) -> None:
    """The whole story over the API alone: add, approve, grant, call."""
    given = {"name": "todo", "transport": "http", "base_url": todo}
    made = open_stage.admin.post("mcp/servers", given).body
    wait_for(lambda: open_stage.admin.post(f"mcp/servers/{made['id']}/refresh").status == 200, 10, "up")
    tools = {one["tool"]: one for one in open_stage.admin.get("mcp/tools", server="todo").body["tools"]}
    assert len(tools) == 5
    create = tools["create_todo"]
    agent = str(open_stage.bot.pk)
    granted = open_stage.admin.post("permissions/tools", {"agent_id": agent, "tool_id": create["id"], "reason": "x"})
    assert granted.status == 201
    assert call(open_stage.agent, create["name"]).is_refused(403, "Unauthorized", "definition_pending")
    approval = {"definition_hash": create["definition"]["hash"], "reason": "Only writes to the list"}
    assert open_stage.admin.post(f"mcp/tools/{create['id']}/approve", approval).status == 200
    answer = call(open_stage.agent, create["name"], {"title": "Ship 1.0"})
    assert answer.status == 200
    assert answer.body["result"]["structured_content"]["title"] == "Ship 1.0"
    assert re.search("Ship 1.0", answer.body["result"]["content"][0]["text"])
    wrong = call(open_stage.agent, create["name"], {"titel": "x"})
    assert wrong.is_refused(400, "InvalidParameters", "invalid_parameters")
    rows = open_stage.agent.get("mcp/invocations", tool_name="todo", method="create_todo").body["invocations"]
    assert [(one["status"], one["reason"]) for one in rows] == [
        ("error", "invalid_parameters"), ("success", ""), ("permission_denied", "definition_pending"),
    ]  # fmt: skip
