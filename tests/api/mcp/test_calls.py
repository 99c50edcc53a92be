"""Calls of tools over REST, as Django answers them: results, and every refusal with its status and its row."""

import json
import uuid
from typing import Any

import pytest
from django.test import Client

from mcp.models import Call
from nhi.actors import SYSTEM
from nhi.credentials import credentials
from nhi.identities import lifecycle
from nhi.models import AuditEvent, Identity, InvocationLog
from tests.api.callers import Caller, Reply
from tests.api.conftest import Stage
from tests.api.mcp.conftest import added, approved, call, row, tool_of
from tests.mcp.peer import Peer, tool
from tests.nhi import cast

pytestmark = [
    pytest.mark.capability("MCP-07"),
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("clerk"),
]
SECRET = "canary-4fJ82kdL0qPz"


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


def test_a_tools_own_error_is_told_with_its_words(held: Stage, peer: Peer) -> None:
    peer.mode = "fail"
    answer = call(held.agent, parameters={"x": 1})
    assert answer.is_refused(502, "ExecutionFailed", "tool_error")
    assert answer.body["details"]["result"] == {"content": [{"type": "text", "text": "{'x': 1}"}]}
    assert (row(answer).status, row(answer).reason) == ("error", "tool_error")
    assert held.admin.get("mcp/breakers").body["breakers"][0]["failure_count"] == 0


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


def test_a_service_account_calls_like_an_agent(held: Stage) -> None:
    role = held.admin.post("roles", {"name": "echoes", "capabilities": ["peer.echo"]}).body["id"]
    held.admin.post("role-assignments", {"role_id": role, "identity_id": str(held.account.pk)})
    token = credentials.issue(actor=SYSTEM, holder=held.account).token
    answer = call(Caller(token))
    assert answer.status == 200
    assert row(answer).agent_role == "echoes"
