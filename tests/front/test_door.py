"""The application's answers: what the gateway said, as HTTP and MCP."""

import asyncio
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from django.db import OperationalError
from mcp_types import methods

from common.errors import Conflict, Limited, RecordUnavailable
from mcp import asgi
from mcp.front import endpoints
from mcp.front.modern import LARGEST
from mcp.gateway import Outcome
from mcp.listing import Listing
from nhi.authentication import Unauthenticated
from tests.front.asking import META, VERSION, body, headers, message
from tests.front.door import CALL, CALLER, TOKEN, WAIT, Client, Gateway, ask

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
    assert (asked.bearer, asked.server, asked.tool) == (TOKEN, "todo", "todo__create")
    assert (asked.arguments, asked.door, asked.protocol_version) == ({"title": "milk"}, "mcp", VERSION)
    assert (asked.request_id, asked.source) == (UUID(REQUEST), "127.0.0.1")
    assert vars(asked.context) == {"thread_id": "c", "session_id": "s", "task_id": "t", "user_instruction": "u"}
    assert asked.on_progress is None
    [bound] = gateway.contexts
    assert (bound.request_id, bound.source) == (UUID(REQUEST), "127.0.0.1")


@pytest.mark.parametrize("given", [None, "", "not a uuid", "x" * 36])
def test_a_request_without_a_uuid_gets_one(given: str | None) -> None:
    found = ask(Gateway(), x_request_id=given)
    assert UUID(found.header("x-request-id")).version == 7


def test_the_source_is_what_the_trusted_proxy_saw(settings: Any) -> None:
    settings.TRUSTED_PROXIES = 1
    gateway = Gateway()
    ask(gateway, x_forwarded_for="203.0.113.9, 198.51.100.7")
    settings.TRUSTED_PROXIES = 0
    ask(gateway, x_forwarded_for="203.0.113.9, 198.51.100.7")
    assert [asked.source for asked in gateway.asked] == ["198.51.100.7", "127.0.0.1"]


def test_a_tool_that_was_never_held_is_unknown_in_the_same_words() -> None:
    gateway = Gateway(Outcome(CALL, "permission_denied", "not_granted", "secret words", held=False))
    found = [ask(gateway, message(name=name)) for name in ("todo__create", "no__such")]
    assert [one.status for one in found] == [400, 400]
    assert found[0].answer["error"]["code"] == -32602
    assert found[0].answer == found[1].answer
    assert found[0].header("x-call-id") == str(CALL)
    assert b"secret words" not in found[0].body


def test_a_refusal_of_what_is_held_is_a_result_with_its_reason() -> None:
    found = ask(Gateway(Outcome(CALL, "permission_denied", "grant_expired", "The grant has ended.")))
    assert (found.status, found.header("x-call-id")) == (200, str(CALL))
    result = found.answer["result"]
    methods.validate_server_result("tools/call", VERSION, result)
    assert result["isError"] is True
    assert result["content"][0]["text"] == "The grant has ended."
    assert result["_meta"]["gatehouse/denied"] == {"reason": "grant_expired", "call_id": str(CALL)}


def test_arguments_that_break_the_schema_are_named_to_the_model() -> None:
    broken = (("parameters.title", "5 is not a string."),)
    found = ask(Gateway(Outcome(CALL, "error", "invalid_parameters", "The arguments do not fit.", fields=broken)))
    result = found.answer["result"]
    assert result["content"][0]["text"] == "The arguments do not fit.\nparameters.title: 5 is not a string."
    fields = [{"field": "parameters.title", "message": "5 is not a string."}]
    assert result["_meta"]["gatehouse/denied"]["fields"] == fields


@pytest.mark.parametrize("reason", ["breaker_open", "identity_suspended", "a reason of tomorrow"])
def test_what_is_no_failure_of_a_call_that_was_made_is_a_refusal(reason: str) -> None:
    found = ask(Gateway(Outcome(CALL, "error", reason, "No.")))
    meta = found.answer["result"]["_meta"]
    assert meta["gatehouse/denied"]["reason"] == reason
    assert "gatehouse/failed" not in meta


def test_a_limit_says_when_to_come_back() -> None:
    told = Outcome(CALL, "rate_limited", "hourly_quota", "Enough.", retry_after=7, remaining=0, reset=7)
    found = ask(Gateway(told))
    assert found.status == 200
    assert found.answer["result"]["_meta"]["gatehouse/denied"]["retry_after"] == 7
    assert found.header("retry-after") == found.header("ratelimit-reset") == "7"
    assert found.header("ratelimit-remaining") == "0"


def test_a_call_that_waits_for_a_person_says_until_when() -> None:
    until = datetime(2026, 11, 18, 15, tzinfo=UTC)
    found = ask(
        Gateway(Outcome(CALL, "pending_approval", "approval_required", "Somebody must agree.", expires_at=until))
    )
    denied = found.answer["result"]["_meta"]["gatehouse/denied"]
    assert denied == {
        "reason": "approval_required", "call_id": str(CALL), "expires_at": "2026-11-18T15:00:00+00:00"
    }  # fmt: skip


def test_an_upstreams_own_error_is_relayed_and_ours_is_marked() -> None:
    theirs = ask(Gateway(Outcome(CALL, "error", "upstream", result={"content": [], "isError": True, "x": 1})))
    assert theirs.answer["result"]["x"] == 1
    ours = ask(Gateway(Outcome(CALL, "error", "timeout", "The server did not answer in time.")))
    meta = ours.answer["result"]["_meta"]
    assert ours.answer["result"]["isError"] is True
    assert meta["gatehouse/failed"] == {"reason": "timeout", "call_id": str(CALL)}
    assert "gatehouse/denied" not in meta


def test_a_refused_call_never_shows_a_result() -> None:
    found = ask(Gateway(Outcome(CALL, "permission_denied", "revoked", "No.", result={"content": ["secret"]})))
    assert b"secret" not in found.body


def test_a_token_that_does_not_hold_is_401() -> None:
    called = ask(Gateway(Outcome(None, "unauthenticated", "credential_revoked", "It was revoked.")))
    listed = ask(Gateway(listing=Unauthenticated("credential_revoked", "It was revoked.")), message("tools/list"))
    for found in (called, listed):
        assert found.status == 401
        assert found.answer["error"]["data"] == {"reason": "credential_revoked"}
        assert found.header("www-authenticate") == (
            'Bearer error="invalid_token", '
            'resource_metadata="http://127.0.0.1:8000/.well-known/oauth-protected-resource/mcp"'
        )  # fmt: skip


class Full(Limited):
    code = "queue_full"


FAILURES: dict[str, tuple[Exception, int, str]] = {
    "no record": (RecordUnavailable(), 503, "record_unavailable"),
    "no database": (OperationalError("connection to 10.0.0.5 refused"), 503, "database_unavailable"),
    "too many at once": (Limited("Busy.", retry_after=2), 429, "limited"),
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
    assert found.header("retry-after") == ("2" if isinstance(error, Limited) else None)
    assert b"secret" not in found.body
    assert b"10.0.0.5" not in found.body


NO_ENTRY: dict[str, tuple[dict[str, str | None], int]] = {
    "no token": ({"authorization": None}, 401),
    "a token that was never ours": ({"authorization": "Bearer nhi_agt_x"}, 401),
    "a changed token": ({"authorization": f"Bearer {TOKEN[:-1]}"}, 401),
    "another host": ({"host": "evil.example"}, 421),
    "another origin": ({"origin": "http://evil.example"}, 403),
    "a form": ({"content_type": "text/plain"}, 415),
    "a page": ({"accept": "text/html"}, 406),
}


@pytest.mark.parametrize(("changed", "status"), NO_ENTRY.values(), ids=NO_ENTRY)
def test_who_may_not_come_in_is_refused_before_the_body_is_read(changed: dict[str, str | None], status: int) -> None:
    gateway = Gateway()
    found = ask(gateway, **changed)
    assert found.status == status
    assert found.received == 0
    assert not gateway.asked
    assert found.header("x-request-id")


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT", "HEAD", "OPTIONS"])
@pytest.mark.parametrize("path", ["/mcp", "/mcp/", "/mcp/todo"])
def test_only_post_is_taken(method: str, path: str) -> None:
    found = Client(Gateway(), path, method)
    asyncio.run(found.send(headers(message()), []))
    assert (found.status, found.header("allow")) == (405, "POST")


def test_no_answer_is_kept_or_guessed_at(settings: Any) -> None:
    for found in (ask(Gateway()), ask(Gateway(), authorization=None)):
        assert found.header("cache-control") == "no-store, private"
        assert found.header("x-content-type-options") == "nosniff"
        assert found.header("access-control-allow-origin") is None
        assert found.header("strict-transport-security") is None
    settings.SECURE_HSTS_SECONDS, settings.SECURE_HSTS_INCLUDE_SUBDOMAINS = 60, True
    assert ask(Gateway()).header("strict-transport-security") == "max-age=60; includeSubDomains"


ORIGINS = {
    "https://Gate.Example.org": "https://gate.example.org",
    "https://gate.example.org:443": "https://gate.example.org",
    "https://gate.example.org:8443": "https://gate.example.org:8443",
    "http://[::1]:8000": "http://[::1]:8000",
    "https://gate.example.org/below": "https://gate.example.org",
}


@pytest.mark.parametrize(("url", "origin"), ORIGINS.items())
def test_the_origin_is_that_of_the_public_url(settings: Any, url: str, origin: str) -> None:
    settings.PUBLIC_URL = url
    assert asgi.house().origin == origin


def test_a_handshake_is_told_what_is_spoken() -> None:
    sent = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": "2025-06-18"}}
    found = ask(Gateway(), sent, mcp_protocol_version=None, mcp_method=None)
    assert found.status == 400
    assert found.answer["error"]["code"] == -32022
    assert found.answer["error"]["data"] == {"supported": [VERSION], "requested": "2025-06-18"}


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
    gateway, seen, cursor = Gateway(listing=Listing(CALLER, tools(250))), [], {}
    for _ in range(3):
        result = ask(gateway, message("tools/list", **cursor)).answer["result"]
        methods.validate_server_result("tools/list", VERSION, result)
        seen += [tool["name"] for tool in result["tools"]]
        cursor = {"cursor": result.get("nextCursor")}
    assert seen == [tool["name"] for tool in tools(250)]
    assert cursor == {"cursor": None}


def test_a_cursor_is_refused_to_another_caller_and_at_another_endpoint() -> None:
    mine = Gateway(listing=Listing(CALLER, tools(101)))
    cursor = ask(mine, message("tools/list")).answer["result"]["nextCursor"]
    theirs = Gateway(listing=Listing(UUID(int=CALLER.int + 1), tools(101)))
    for found in (
        ask(theirs, message("tools/list", cursor=cursor)),
        ask(mine, message("tools/list", cursor=cursor), path="/mcp/todo"),
        ask(mine, message("tools/list", cursor="nonsense")),
        ask(mine, message("tools/list", cursor="")),
    ):
        assert (found.status, found.answer["error"]["code"]) == (400, -32602)
    assert ask(mine, message("tools/list", cursor=cursor)).status == 200


ENDPOINTS = {
    "/mcp": "",
    "/mcp/": "",
    "/mcp/todo": "todo",
    "/mcp/tools": None,
    "/mcp/servers": None,
    "/mcp/calls": None,
    "/mcp/tools/todo__create/call": None,
    "/mcp/todo/x": None,
    "/mcpx": None,
    "/": None,
    "/api/nhi/mcp": None,
}


@pytest.mark.parametrize(("path", "server"), ENDPOINTS.items())
def test_paths_of_the_rest_api_stay_its_own(path: str, server: str | None) -> None:
    assert endpoints.server_of(path) == server


def test_a_body_in_many_parts_is_one_body() -> None:
    async def once() -> Client:
        raw = body(message())
        return await Client(gateway).post(parts=[raw[at : at + 7] for at in range(0, len(raw), 7)])

    gateway = Gateway()
    assert asyncio.run(once()).answer["result"]["content"]
    assert len(gateway.asked) == 1


@pytest.mark.parametrize("parts", [[b" " * (LARGEST + 1)], [b" " * 1024 * 1024] * 5, [b" " * 1024 * 1024] * 40])
def test_a_body_past_the_limit_is_refused_and_not_kept(parts: list[bytes]) -> None:
    async def once() -> Client:
        return await Client(gateway).post(parts=parts)

    gateway = Gateway()
    found = asyncio.run(once())
    assert found.status == 413
    assert found.received <= 18, "whoever sends without end is cut off"
    assert not gateway.asked


def test_a_body_that_never_ends_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    async def once() -> Client:
        client = Client(Gateway())

        async def receive() -> dict[str, Any]:
            await asyncio.Event().wait()
            raise AssertionError

        async def send(told: dict[str, Any]) -> None:
            client.sent.append(told)

        given = headers(message(), authorization=f"Bearer {TOKEN}")
        scope = {"type": "http", "method": "POST", "path": "/mcp", "headers": given, "client": None}
        async with asyncio.timeout(WAIT):
            await asgi.make_application(client.gateway)(scope, receive, send)
        return client

    monkeypatch.setattr("mcp.asgi.bodies.SECONDS", 0.02)
    found = asyncio.run(once())
    assert (found.status, found.header("connection")) == (408, "close")


def test_a_client_that_leaves_while_it_sends_is_not_answered() -> None:
    async def once() -> Client:
        client = Client(Gateway())
        client.gone.set()
        return await client.post()

    found = asyncio.run(once())
    assert not found.sent
    assert not found.gateway.asked
