"""The application's answers: what the gateway said, as HTTP and MCP."""

import asyncio
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from django.db import OperationalError
from mcp_types import methods

from common.errors import Conflict, RateLimited, RecordUnavailable
from mcp.gateway.tool_list import ToolListing
from mcp.limits.budget_state import RemainingQuota
from nhi.authorization.authentication import Unauthenticated
from nhi.credentials import tokens
from tests.front.asking import META, VERSION, body, message
from tests.front.door import CALL, CALLER, TOKEN, UNKNOWN, Client, Gateway, ask, made, refused

pytestmark = pytest.mark.capability("MCP-06")
REQUEST = "0193c9a4-0000-7000-8000-000000000001"


def test_a_call_is_answered_with_its_result() -> None:
    gateway = Gateway()
    found = ask(gateway, message(id="mine"), x_request_id=REQUEST)
    assert (found.status, found.header("content-type")) == (200, "application/json")
    assert (found.header("x-request-id"), found.header("x-call-id")) == (REQUEST, str(CALL))
    assert found.answer["id"] == "mine"
    assert found.answer["result"]["content"] == [{"type": "text", "text": "done"}]
    methods.validate_server_result("tools/call", VERSION, found.answer["result"])
    assert found.header("content-length") == str(len(found.body))


def test_the_gateway_is_told_who_asks_for_what_and_from_where() -> None:
    gateway = Gateway()
    context = {"conversation_id": "c", "session_id": "s", "task_id": "t", "user_instruction": "u"}
    ask(gateway, message(meta={**META, "gatehouse/context": context}), x_request_id=REQUEST, path="/mcp/todo")
    [asked] = gateway.asked
    assert (asked.token, asked.server, asked.tool) == (tokens.parse(TOKEN), "todo", "todo__create")
    assert (asked.arguments, asked.entry_point) == ({"title": "milk"}, "mcp")
    assert (asked.request_id, asked.source) == (UUID(REQUEST), "127.0.0.1")
    assert vars(asked.context) == {"thread_id": "c", "session_id": "s", "task_id": "t", "user_instruction": "u"}
    assert asked.on_progress is None
    [bound] = gateway.contexts
    assert (bound.request_id, bound.source) == (UUID(REQUEST), "127.0.0.1")


def test_a_tool_that_was_never_held_is_unknown_in_the_same_words() -> None:
    gateway = Gateway(refused("permission_denied", "not_granted", "secret words", tool_is_visible=False))
    found = [ask(gateway, message(name=name)) for name in ("todo__create", "no__such")]
    assert [one.status for one in found] == [400, 400]
    assert found[0].answer["error"]["code"] == -32602
    assert found[0].answer == found[1].answer
    assert found[0].header("x-call-id") == str(CALL)
    assert b"secret words" not in found[0].body


def test_a_refusal_of_what_is_held_is_a_result_with_its_reason() -> None:
    found = ask(Gateway(refused("permission_denied", "grant_expired", "The grant has ended.")))
    assert (found.status, found.header("x-call-id")) == (200, str(CALL))
    result = found.answer["result"]
    methods.validate_server_result("tools/call", VERSION, result)
    assert result["isError"] is True
    assert result["content"][0]["text"] == "The grant has ended."
    assert result["_meta"]["gatehouse/denied"] == {"reason": "grant_expired", "call_id": str(CALL)}


def test_arguments_that_break_the_schema_are_named_to_the_model() -> None:
    broken = (("parameters.title", "5 is not a string."),)
    found = ask(Gateway(refused("error", "invalid_parameters", "The arguments do not fit.", fields=broken)))
    result = found.answer["result"]
    assert result["content"][0]["text"] == "The arguments do not fit.\nparameters.title: 5 is not a string."
    fields = [{"field": "parameters.title", "message": "5 is not a string."}]
    assert result["_meta"]["gatehouse/denied"]["fields"] == fields


@pytest.mark.parametrize("reason", ["breaker_open", "identity_suspended", "a reason of tomorrow"])
def test_what_is_no_failure_of_a_call_that_was_made_is_a_refusal(reason: str) -> None:
    found = ask(Gateway(refused("error", reason, "No.")))
    meta = found.answer["result"]["_meta"]
    assert meta["gatehouse/denied"]["reason"] == reason
    assert "gatehouse/failed" not in meta


def test_a_limit_says_when_to_come_back() -> None:
    told = refused("rate_limited", "hourly_quota", "Enough.", retry_after=7, quota=RemainingQuota(0, 7))
    found = ask(Gateway(told))
    assert found.status == 200
    assert found.answer["result"]["_meta"]["gatehouse/denied"]["retry_after"] == 7
    assert found.header("retry-after") == found.header("ratelimit-reset") == "7"
    assert found.header("ratelimit-remaining") == "0"


def test_a_call_that_waits_for_a_person_says_until_when() -> None:
    until = datetime(2026, 11, 18, 15, tzinfo=UTC)
    found = ask(Gateway(refused("pending_approval", "approval_required", "Somebody must agree.", expires_at=until)))
    denied = found.answer["result"]["_meta"]["gatehouse/denied"]
    assert denied == {
        "reason": "approval_required", "call_id": str(CALL), "expires_at": "2026-11-18T15:00:00+00:00"
    }  # fmt: skip


def test_an_upstreams_own_error_is_relayed_and_ours_is_marked() -> None:
    theirs = ask(Gateway(made("error", "upstream", result={"content": [], "isError": True, "x": 1})))
    assert theirs.answer["result"]["x"] == 1
    ours = ask(Gateway(made("error", "timeout", "The server did not answer in time.")))
    meta = ours.answer["result"]["_meta"]
    assert ours.answer["result"]["isError"] is True
    assert meta["gatehouse/failed"] == {"reason": "timeout", "call_id": str(CALL)}
    assert "gatehouse/denied" not in meta


def test_a_refused_call_never_shows_a_result() -> None:
    found = ask(Gateway(made("permission_denied", "revoked", "No.", result={"content": ["secret"]})))
    assert b"secret" not in found.body


def test_a_token_that_does_not_hold_is_401() -> None:
    called = ask(Gateway(UNKNOWN))
    listed = ask(Gateway(listing=Unauthenticated("credential_revoked", "It was revoked.")), message("tools/list"))
    for found in (called, listed):
        assert found.status == 401
        assert found.answer["error"]["data"] == {"reason": "credential_revoked"}
        assert found.header("www-authenticate") == (
            'Bearer error="invalid_token", '
            'resource_metadata="http://127.0.0.1:8000/.well-known/oauth-protected-resource/mcp"'
        )  # fmt: skip


class Full(RateLimited):
    code = "queue_full"


FAILURES: dict[str, tuple[Exception, int, str]] = {
    "no record": (RecordUnavailable(), 503, "record_unavailable"),
    "no database": (OperationalError("connection to 10.0.0.5 refused"), 503, "database_unavailable"),
    "too many at once": (RateLimited("Busy.", retry_after=2), 429, "limited"),
    "too many waiting": (Full("Busy.", retry_after=2), 503, "queue_full"),
    "a refusal nobody thought of": (Conflict("secret"), 500, "unexpected"),
    "a mistake of ours": (KeyError("secret"), 500, "unexpected"),
}


@pytest.mark.parametrize(("error", "status", "reason"), FAILURES.values(), ids=FAILURES)
@pytest.mark.parametrize("method", ["tools/call", "tools/list"])
def test_what_fails_here_fails_closed(method: str, error: Exception, status: int, reason: str) -> None:
    found = ask(Gateway(error, listing=error), message(method))
    assert found.status == status
    assert (found.answer["id"], found.answer["error"]["code"]) == (1, -32603)
    assert found.answer["error"]["data"] == {"reason": reason}
    assert found.header("retry-after") == ("2" if isinstance(error, RateLimited) else None)
    assert b"secret" not in found.body
    assert b"10.0.0.5" not in found.body


def test_a_notification_is_202_and_empty() -> None:
    async def once() -> Client:
        raw = body({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}})
        return await Client(gateway).post(parts=[raw])

    gateway = Gateway()
    found = asyncio.run(once())
    assert (found.status, found.body) == (202, b"")
    assert not gateway.asked


def test_discovery_is_for_those_who_may_come_in() -> None:
    found = ask(Gateway(), message("server/discover"))
    methods.validate_server_result("server/discover", VERSION, found.answer["result"])
    assert found.answer["result"]["supportedVersions"] == [VERSION]
    refused = Gateway(listing=Unauthenticated("credential_expired", "It has ended."))
    assert ask(refused, message("server/discover")).status == 401


def tools(count: int) -> list[dict[str, Any]]:
    return [{"name": f"t{number:04}", "inputSchema": {"type": "object"}} for number in range(count)]


def test_pages_of_tools_follow_each_other() -> None:
    gateway, seen, cursor = Gateway(listing=ToolListing(CALLER, tools(250))), [], {}
    for _ in range(3):
        result = ask(gateway, message("tools/list", **cursor)).answer["result"]
        methods.validate_server_result("tools/list", VERSION, result)
        seen += [tool["name"] for tool in result["tools"]]
        cursor = {"cursor": result.get("nextCursor")}
    assert seen == [tool["name"] for tool in tools(250)]
    assert cursor == {"cursor": None}


def test_a_cursor_is_refused_to_another_caller_and_at_another_endpoint() -> None:
    mine = Gateway(listing=ToolListing(CALLER, tools(101)))
    cursor = ask(mine, message("tools/list")).answer["result"]["nextCursor"]
    theirs = Gateway(listing=ToolListing(UUID(int=CALLER.int + 1), tools(101)))
    for found in (
        ask(theirs, message("tools/list", cursor=cursor)),
        ask(mine, message("tools/list", cursor=cursor), path="/mcp/todo"),
        ask(mine, message("tools/list", cursor="nonsense")),
        ask(mine, message("tools/list", cursor="")),
    ):
        assert (found.status, found.answer["error"]["code"]) == (400, -32602)
    assert ask(mine, message("tools/list", cursor=cursor)).status == 200
