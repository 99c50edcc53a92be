"""Calls of tools over REST, as Django answers them: results, and every refusal with its status and its row."""

import json
import re
import sys
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from subprocess import Popen
from typing import Any

import pytest
from django.db import connection
from django.test import Client

from mcp.models import Breaker, Call, Tool
from nhi import credentials, lifecycle
from nhi.actors import SYSTEM
from nhi.models import AuditEvent, Identity, InvocationLog
from tests.api.callers import Caller, Reply
from tests.api.conftest import Stage
from tests.api.mcp.conftest import added, approved, call, tool_of
from tests.front.served import wait_for
from tests.mcp.peer import Peer, tool
from tests.nhi import cast
from tests.services.house import ROOT
from tests.services.postgresql import free_port

pytestmark = [
    pytest.mark.capability("MCP-07"),
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("clerk"),
]
SECRET = "canary-4fJ82kdL0qPz"


@pytest.fixture
def held(open_stage: Stage, peer: Peer) -> Stage:
    """The bot holds echo, approved; other is nobody's."""
    added(open_stage, peer)
    approved(open_stage)
    cast.tool_grant(open_stage.bot, tool_of().identity)
    return open_stage


def row(answer: Reply) -> InvocationLog:
    return InvocationLog.objects.get(pk=answer.headers["X-Call-ID"])


def without_ids(answer: Reply) -> Any:
    return answer.status, {**answer.body, "request_id": ""}


@pytest.mark.both_databases
def test_a_call_is_answered_and_logged(held: Stage, peer: Peer) -> None:
    request = str(uuid.uuid4())
    given = {"parameters": {"x": 1}, "context": {"conversation_id": "c-1", "session_id": "s-1", "task_id": None}}
    answer = held.agent.send(
        "POST", "mcp/tools/peer__echo/call", json.dumps(given), **{"X-Request-ID": request}
    )  # fmt: skip
    assert answer.status == 200
    assert set(answer.body) == {"call_id", "result", "latency_ms"}
    assert answer.body["result"]["content"] == [{"type": "text", "text": "{'x': 1}"}]
    assert answer.body["latency_ms"] > 0
    assert answer.headers["X-Call-ID"] == answer.body["call_id"]
    assert answer.headers["X-Request-ID"] == request
    found = held.agent.get(f"mcp/invocations/{answer.body['call_id']}").body
    wanted = {
        "status": "success", "reason": "", "tool_name": "peer", "method": "echo", "request_id": request,
        "thread_id": "c-1", "session_id": "s-1", "agent_id": str(held.bot.pk),
    }  # fmt: skip
    assert {name: found[name] for name in wanted} == wanted
    assert held.agent.get(f"mcp/calls/{answer.body['call_id']}").body["status"] == "done"
    assert held.agent.post("/mcp/tools/peer__echo/call", {"parameters": {}}).status == 200
    assert not Call.objects.exists()


@pytest.mark.capability("NHI-08")
def test_what_is_not_yours_is_not_there(held: Stage, peer: Peer) -> None:
    unknown = call(held.stranger, "nowhere__nothing")
    assert unknown.is_refused(404, "NotFound", "not_found")
    assert row(unknown).reason == "no_grant"
    for body in ('{"parameters": {}}', "", "[", "{}", '{"parameters": 5, "x": 1}'):
        for name in (
            "peer__echo",
            "peer__other",
            "peer__nothing",
            "no-such__tool",
            "odd",
            "a__b/c:d",
            str(uuid.uuid4()),
        ):
            answer = held.stranger.send("POST", f"mcp/tools/{name}/call", body)
            assert without_ids(answer) == without_ids(unknown), (name, body)
    guest = held.person("guest")
    for method in ("GET", "PATCH", "PUT", "DELETE"):
        for caller in (held.stranger, guest):
            answer = caller.send(method, "mcp/tools/peer__echo/call", "{}")
            assert without_ids(answer) == without_ids(unknown)
        assert held.admin.send(method, "mcp/tools/peer__echo/call", "{}").status == 405
    assert not peer.calls


def test_an_unknown_name_is_logged_split_at_its_first_underscores(held: Stage) -> None:
    found = row(call(held.agent, "one__two__three"))
    assert (found.tool_name, found.method, found.status, found.reason) == (
        "one", "two__three", "permission_denied", "no_grant",
    )  # fmt: skip


@pytest.mark.parametrize(
    "body, fields",
    [
        ("", ["parameters"]),
        ("{}", ["parameters"]),
        ("[", []),
        ("[]", []),
        ('{"parameters": []}', ["parameters"]),
        ('{"parameters": {}, "tool": "x"}', ["tool"]),
        ('{"parameters": 1, "context": 2, "x": 3}', ["x", "parameters", "context"]),
        ('{"parameters": {}, "context": {"who": "x", "task_id": 5}}', ["context.who", "context.task_id"]),
        ('{"parameters": {"a": NaN}}', []),
        ('{"parameters": {"a": 1, "a": 2}}', []),
    ],
)
def test_a_body_that_means_nothing_is_named_and_logged(held: Stage, peer: Peer, body: str, fields: list[str]) -> None:
    answer = held.agent.send("POST", "mcp/tools/peer__echo/call", body)
    assert answer.is_refused(400, "InvalidParameters", "invalid_parameters")
    assert answer.fields == fields
    found = row(answer)
    assert (found.status, found.reason) == ("error", "invalid_parameters")
    assert not peer.calls


def test_arguments_are_checked_against_the_definition(open_stage: Stage, peer: Peer) -> None:
    schema = {"properties": {"x": {"type": "integer"}}, "required": ["x"], "additionalProperties": False}
    peer.tools[0] = tool("echo", type="object", **schema)
    added(open_stage, peer)
    approved(open_stage)
    cast.tool_grant(open_stage.bot, tool_of().identity)
    answer = call(open_stage.agent, parameters={"x": "one"})
    assert answer.is_refused(400, "InvalidParameters", "invalid_parameters")
    assert answer.fields
    assert not peer.calls
    assert call(open_stage.agent, parameters={"x": 1}).status == 200


def test_only_identities_call(held: Stage) -> None:
    for person in (held.admin, held.person("guest")):
        for name in ("peer__echo", "nowhere__nothing"):
            assert call(person, name).is_refused(403, "Unauthorized", "identities_only")
    assert held.person("ada", "auditor").post("mcp/tools/x/call", {}).is_refused(403, "Unauthorized", "only_reads")
    assert call(Caller()).is_refused(401, "Unauthorized", "no_credential")
    assert "resource_metadata=" in call(Caller("nhi_agt_x_y")).headers["WWW-Authenticate"]
    session = Caller(client=Client())
    session.client.force_login(held.mara)
    assert call(session).is_refused(403, "Unauthorized", "identities_only")
    assert not InvocationLog.objects.exists()


@pytest.mark.capability("MCP-05")
@pytest.mark.parametrize("change, reason", [("new", "definition_pending"), ("gone", "definition_withdrawn")])
def test_a_tool_that_was_not_looked_at_is_refused(open_stage: Stage, peer: Peer, change: str, reason: str) -> None:
    server = added(open_stage, peer)["id"]
    cast.tool_grant(open_stage.bot, tool_of().identity)
    if change == "gone":
        approved(open_stage)
        peer.tools.pop(0)
        open_stage.admin.post(f"mcp/servers/{server}/refresh")
    answer = call(open_stage.agent)
    assert answer.is_refused(403, "Unauthorized", reason)
    assert (row(answer).status, row(answer).reason) == ("permission_denied", reason)


@pytest.mark.capability("MCP-05")
def test_a_changed_one_is_refused_until_another_approves(held: Stage, peer: Peer) -> None:
    peer.tools[0] = tool("echo", type="object", title="Changed")
    held.admin.post("mcp/servers/" + str(tool_of().server_id) + "/refresh")
    assert call(held.agent).is_refused(403, "Unauthorized", "definition_changed")
    current = tool_of().current
    assert current
    given = {"definition_hash": current.hash, "reason": "Read it"}
    assert held.person("tom", "approver").post(f"mcp/tools/{tool_of().pk}/approve", given).status == 200
    assert call(held.agent).status == 200


def test_held_and_refused(held: Stage) -> None:
    server = str(tool_of().server_id)
    held.admin.post(f"mcp/servers/{server}/disable", {"reason": "x"})
    off = call(held.agent)
    assert off.is_refused(403, "Unauthorized", "server_disabled")
    assert row(off).reason == "server_disabled"
    held.admin.post(f"mcp/servers/{server}/enable", {"reason": "x"})
    lifecycle.suspend(actor=SYSTEM, identity=tool_of().identity, reason="x")
    assert call(held.agent).is_refused(403, "Unauthorized", "target_unusable")
    lifecycle.activate(actor=SYSTEM, identity=Identity.objects.get(pk=tool_of().pk), reason="x")
    assert call(held.agent).status == 200
    grant = held.admin.get("permissions/tools", agent_id=str(held.bot.pk)).body["tools"][0]["id"]
    held.admin.post(f"permissions/tools/{grant}/revoke", {"reason": "x"})
    revoked = call(held.agent)
    assert revoked.is_refused(403, "Unauthorized", "grant_revoked")


@pytest.mark.capability("MCP-08")
def test_a_budget_is_told_and_then_refuses(held: Stage) -> None:
    made = held.admin.post("mcp/budgets", {"scope": "agent", "target_id": str(held.bot.pk), "calls_per_hour": 2}).body
    first = call(held.agent)
    assert (first.headers["RateLimit-Remaining"], int(first.headers["RateLimit-Reset"]) >= 1) == ("1", True)
    assert call(held.agent).headers["RateLimit-Remaining"] == "0"
    over = call(held.agent)
    assert over.is_refused(429, "RateLimitExceeded", "quota_exceeded")
    assert int(over.headers["Retry-After"]) >= 1
    assert over.headers["RateLimit-Remaining"] == "0"
    assert (row(over).status, row(over).reason) == ("rate_limited", "quota_exceeded")
    used = held.admin.get(f"mcp/budgets/{made['id']}").body["used"]
    assert (used["hour"], used["day"], used["in_flight"]) == (2, 2, 0)


@pytest.mark.capability("MCP-08")
def test_concurrency_refuses_and_never_queues(held: Stage, peer: Peer) -> None:
    given = {"scope": "server", "target_id": str(tool_of().server_id), "concurrency_limit": 1}
    budget = f"mcp/budgets/{held.admin.post('mcp/budgets', given).body['id']}"
    peer.hold()
    with ThreadPoolExecutor(1) as pool:
        under_way = pool.submit(_from_a_thread, held.agent)
        wait_for(lambda: len(peer.calls) == 1, "called")
        assert held.admin.get(budget).body["used"]["in_flight"] == 1
        second = call(held.agent)
        assert second.is_refused(429, "RateLimitExceeded", "concurrency_exceeded")
        assert int(second.headers["Retry-After"]) >= 1
        peer.let_go()
        assert under_way.result(10).status == 200
    assert held.admin.get(budget).body["used"]["in_flight"] == 0


def test_a_full_queue_is_said_so(held: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcp.clerk.desk.MOST_WAITING", 0)
    full = call(held.agent)
    assert full.is_refused(503, "ExecutionFailed", "queue_full")
    assert int(full.headers["Retry-After"]) >= 1


@pytest.mark.capability("MCP-08", "NHI-14")
def test_limits_of_a_grant_hold(open_stage: Stage, peer: Peer) -> None:
    added(open_stage, peer)
    approved(open_stage)
    given = {"agent_id": str(open_stage.bot.pk), "tool_id": str(tool_of().pk), "reason": "x", "max_calls_per_hour": 1}
    assert open_stage.admin.post("permissions/tools", given).status == 201
    assert call(open_stage.agent).status == 200
    assert call(open_stage.agent).is_refused(429, "RateLimitExceeded", "quota_exceeded")
    own = open_stage.admin.get("mcp/budgets", scope="grant").body["budgets"]
    assert [one["used"]["hour"] for one in own] == [1]


def test_a_tools_own_error_is_told_with_its_words(held: Stage, peer: Peer) -> None:
    peer.mode = "fail"
    answer = call(held.agent, parameters={"x": 1})
    assert answer.is_refused(502, "ExecutionFailed", "tool_error")
    assert answer.body["details"]["result"] == {"content": [{"type": "text", "text": "{'x': 1}"}]}
    assert (row(answer).status, row(answer).reason) == ("error", "tool_error")
    assert held.admin.get("mcp/breakers").body["breakers"][0]["failure_count"] == 0


@pytest.mark.capability("MCP-09")
def test_a_server_that_fails_is_left_alone(held: Stage, peer: Peer) -> None:
    Breaker.objects.update(failure_threshold=2)
    peer.mode = "error"
    for _ in range(2):
        broken = call(held.agent)
        assert broken.is_refused(502, "ExecutionFailed", "upstream")
        assert (row(broken).status, row(broken).reason) == ("error", "upstream")
    arrived = len(peer.calls)
    shut = call(held.agent)
    assert shut.is_refused(503, "ExecutionFailed", "breaker_open")
    assert int(shut.headers["Retry-After"]) >= 1
    assert (row(shut).status, row(shut).reason) == ("error", "breaker_open")
    assert len(peer.calls) == arrived
    assert held.admin.get("mcp/breakers").body["breakers"][0]["state"] == "OPEN"
    peer.mode = "echo"
    assert held.admin.post("mcp/breakers/peer/reset", {"reason": "Mended"}).status == 200
    assert call(held.agent).status == 200


def test_a_call_that_takes_too_long(held: Stage, peer: Peer) -> None:
    held.admin.post("mcp/budgets", {"scope": "tool", "target_id": str(tool_of().pk), "timeout": "0.3s"})
    peer.hold()
    late = call(held.agent)
    assert late.is_refused(504, "Timeout", "timeout")
    assert (row(late).status, row(late).reason) == ("error", "timeout")
    peer.let_go()


@pytest.mark.capability("MCP-11")
def test_metrics_and_flights_are_shown(held: Stage, peer: Peer) -> None:
    server = f"mcp/servers/{tool_of().server_id}"
    call(held.agent)
    peer.hold()
    with ThreadPoolExecutor(1) as pool:
        under_way = pool.submit(_from_a_thread, held.agent)
        wait_for(lambda: len(peer.calls) == 2, "called")
        flight = Call.objects.get()
        assert held.admin.get(server).body["metrics"]["in_flight"] == 1
        said = held.agent.get(f"mcp/calls/{flight.pk}").body
        assert (said["status"], said["reason"], said["tool"]) == ("pending", "in_flight", "peer__echo")
        peer.let_go()
        assert under_way.result(10).status == 200
    assert held.agent.get(f"mcp/calls/{flight.pk}").body["status"] == "done"
    peer.mode = "fail"
    call(held.agent)
    metrics = held.admin.get(server).body["metrics"]
    counts = {name: metrics[name] for name in ("invocation_count", "success_count", "error_count", "in_flight")}
    assert counts == {"invocation_count": 3, "success_count": 2, "error_count": 1, "in_flight": 0}
    assert metrics["average_latency_ms"] > 0
    assert metrics["p95_ms"] >= metrics["average_latency_ms"]
    assert metrics["last_invocation_time"].endswith("Z")


def _from_a_thread(caller: Caller) -> Reply:
    try:
        return call(Caller(caller.token))
    finally:
        connection.close()


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


def test_no_answer_holds_a_secret(open_stage: Stage, peer: Peer) -> None:
    """What a server echoes of what it alone was given is taken out of the answer."""
    added(open_stage, peer, headers={"X-Key": "${KEY}"}, secrets={"KEY": SECRET})
    approved(open_stage)
    cast.tool_grant(open_stage.bot, tool_of().identity)
    for mode in ("echo", "fail"):
        peer.mode = mode
        answer = call(open_stage.agent, parameters={"said": SECRET})
        assert peer.headers[-1]["X-Key"] == SECRET
        assert SECRET not in json.dumps(answer.body), mode
        assert row(answer).redaction_applied
    shown = [open_stage.admin.get(path).body for path in ("mcp/invocations", "mcp/servers", "audit-events")]
    assert SECRET not in json.dumps(shown)


def test_a_suspended_caller_is_nobody(held: Stage) -> None:
    lifecycle.suspend(actor=SYSTEM, identity=held.bot, reason="x")
    assert call(held.agent).is_refused(401, "Unauthorized", "caller_suspended")


def test_each_refusal_is_on_record_once(held: Stage) -> None:
    before = AuditEvent.objects.count()
    for name in ("peer__echo", "peer__other", "x__y"):
        call(held.agent, name)
    assert InvocationLog.objects.count() == 3
    assert AuditEvent.objects.count() == before


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
    wait_for(lambda: open_stage.admin.post(f"mcp/servers/{made['id']}/refresh").status == 200, "up")
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


def test_a_service_account_calls_like_an_agent(held: Stage) -> None:
    role = held.admin.post("roles", {"name": "echoes", "capabilities": ["peer.echo"]}).body["id"]
    held.admin.post("role-assignments", {"role_id": role, "identity_id": str(held.account.pk)})
    token = credentials.issue(actor=SYSTEM, holder=held.account).token
    answer = call(Caller(token))
    assert answer.status == 200
    assert row(answer).agent_role == "echoes"
