"""Clients of the handshake revisions: how they begin, what they are served, and which request is of which revision."""

import json
from typing import Any

import pytest
from mcp_types import methods

from common.db import clock
from common.errors import RecordUnavailable
from mcp.gateway.tool_list import ToolListing
from mcp.models import Call, McpSession
from mcp.models.sessions import SessionStartCount
from mcp.server.handshake import message_parser
from mcp.server.handshake.message_parser import InitializeRequest
from nhi.identities import lifecycle
from nhi.models import Identity
from tests.front import asking
from tests.front.door import CALL, DONE, TOKEN, UNKNOWN, Client, Gateway, made, refused
from tests.front.handshake import NEWEST, OLDEST, Caller, call, initialize, notification, request, token
from tests.nhi import cast

pytestmark = [pytest.mark.capability("MCP-06"), pytest.mark.django_db(transaction=True)]
MODERN = "2026-07-28"


@pytest.fixture
def bot() -> Identity:
    return cast.agent()


@pytest.fixture
def caller(bot: Identity) -> Caller:
    return Caller(Gateway(), token(bot))


@pytest.fixture
def begun(caller: Caller) -> Caller:
    """With a session of the newest of these revisions."""
    caller.begin()
    return caller


def refusal(response: Client) -> tuple[int, int]:
    return response.status, response.answer["error"]["code"]


# Which revision a request is of.


@pytest.mark.parametrize("version", [OLDEST, "2025-06-18", NEWEST])
def test_a_client_begins_with_the_version_that_it_wants(caller: Caller, version: str) -> None:
    response = caller.begin(version)
    result = response.answer["result"]
    assert (response.header("content-type"), response.answer["id"]) == ("application/json", 1)
    methods.validate_server_result("initialize", version, result)
    assert result["protocolVersion"] == version
    assert result["serverInfo"]["name"] == "gatehouse"
    assert result["capabilities"] == {"tools": {"listChanged": False}}
    assert len(str(caller.session)) <= 140
    assert caller.post(request("ping")).answer["result"] == {}


@pytest.mark.parametrize("version", ["2024-11-05", MODERN, "2099-01-01", "", "next"])
def test_a_client_that_wants_another_version_gets_the_newest_of_the_handshake(caller: Caller, version: str) -> None:
    caller.begin(version)
    assert caller.version == NEWEST


@pytest.mark.parametrize("header", ["2024-11-05", OLDEST, NEWEST])
def test_initialize_may_name_a_version_of_the_handshake_in_its_header_too(caller: Caller, header: str) -> None:
    response = caller.post(initialize("2025-06-18"), mcp_protocol_version=header)
    assert response.answer["result"]["protocolVersion"] == "2025-06-18"


def test_after_it_the_header_is_the_sessions_or_absent(begun: Caller) -> None:
    assert begun.post(request("ping")).status == 200
    assert begun.post(request("ping"), mcp_protocol_version=None).status == 200


@pytest.mark.parametrize("version", ["2024-11-05", OLDEST, "2025-06-18"])
def test_after_it_a_header_with_another_version_is_refused(begun: Caller, version: str) -> None:
    response = begun.post(request("ping"), mcp_protocol_version=version)
    assert refusal(response) == (400, -32600)
    assert response.answer["error"]["data"] == {"reason": "version_mismatch"}
    assert refusal(begun.delete(mcp_protocol_version=version)) == (400, -32600)


@pytest.mark.parametrize("sent", [request("ping"), request("tools/list"), call(), notification("x"), [], 5])
def test_without_header_and_session_only_initialize_is_taken(caller: Caller, sent: Any) -> None:
    response = caller.post(sent)
    assert refusal(response) == (400, -32600)
    assert response.answer["error"]["data"] == {"reason": "session_required"}
    assert response.answer["id"] == (1 if isinstance(sent, dict) and "id" in sent else None)


@pytest.mark.parametrize("version", [OLDEST, NEWEST, "2024-11-05"])
def test_a_version_of_the_handshake_without_a_session_is_refused_alike(caller: Caller, version: str) -> None:
    assert refusal(caller.post(request("ping"), mcp_protocol_version=version)) == (400, -32600)


@pytest.mark.parametrize("version", [MODERN, "2099-01-01", "", "next"])
@pytest.mark.parametrize("method", ["initialize", "ping", "tools/list"])
def test_any_other_version_in_the_header_is_answered_by_todays_protocol(
    caller: Caller, version: str, method: str
) -> None:
    sent = asking.message(method, meta={**asking.META, "io.modelcontextprotocol/protocolVersion": version})
    response = caller.post(sent, mcp_protocol_version=version, mcp_method=method)
    if version != MODERN:
        assert refusal(response) == (400, -32022)
        assert response.answer["error"]["data"]["supported"] == [MODERN]
    elif method == "tools/list":
        assert response.answer["result"]["resultType"] == "complete"
    else:
        assert refusal(response) == (404, -32601)
    assert refusal(caller.post(sent, mcp_protocol_version=version)) == (400, -32020)


def test_a_message_of_today_whose_header_was_lost_is_told_so(caller: Caller) -> None:
    """A proxy may have dropped it; the message itself names its version."""
    response = caller.post(asking.message("tools/list"), mcp_method="tools/list")
    assert refusal(response) == (400, -32020)


def test_a_session_is_no_business_of_todays_protocol(begun: Caller) -> None:
    response = begun.post(asking.message("tools/list"), mcp_protocol_version=MODERN, mcp_method="tools/list")
    assert response.answer["result"]["resultType"] == "complete"
    ended = begun.delete(mcp_protocol_version=MODERN)
    assert (ended.status, ended.header("allow")) == (405, "POST")
    assert begun.post(request("ping")).status == 200


def test_a_header_twice_is_no_header(begun: Caller) -> None:
    for name in ("mcp-session-id", "mcp-protocol-version"):
        given = [*begun.headers(), (name.encode(), dict(begun.headers())[name.encode()])]
        parsed = begun._send("POST", given, [asking.body(request("ping"))])
        assert refusal(parsed) == (400, -32600), name


# Who is served, and for how long.


@pytest.mark.parametrize("sent", [initialize(), request("ping"), call(), notification("x"), []])
def test_a_token_that_does_not_hold_is_401_before_anything_else(bot: Identity, sent: Any) -> None:
    for session in (None, "nonsense"):
        stranger = Caller(Gateway(), TOKEN, session=session)
        response = stranger.post(sent)
        assert response.status == stranger.delete().status == 401
        assert response.answer["error"]["data"] == {"reason": "credential_unknown"}
        assert str(response.header("www-authenticate")).startswith('Bearer error="invalid_token"')
        assert stranger.post(sent, authorization=None).status == 401


def test_whoever_has_no_part_in_a_session_gets_one_404(begun: Caller) -> None:
    other = Caller(Gateway(), token(cast.agent("other")), session=begun.session)
    elsewhere = Caller(Gateway(), begun.token, "/mcp/todo", begun.session)
    forged = Caller(Gateway(), begun.token, session=f"{str(begun.session)[:-1]}!")
    answers = {
        json.dumps([response.status, response.answer])
        for caller in (other, elsewhere, forged)
        for response in (caller.post(request("ping")), caller.post(call()))
    }
    assert len(answers) == 1
    [answer] = answers
    status, body = json.loads(answer)
    assert status == 404
    assert body["error"]["data"] == {"reason": "session_not_found"}
    assert not begun.gateway.asked


def test_a_session_that_was_ended_is_404(begun: Caller) -> None:
    response = begun.delete()
    assert (response.status, response.body) == (200, b"")
    assert begun.post(request("ping")).status == begun.delete().status == 404
    assert begun.begin().status == 200, "with its old session in the header"


def test_no_session_can_be_ended_that_is_not_named(caller: Caller) -> None:
    assert refusal(caller.delete()) == (400, -32600)
    assert not McpSession.objects.exists()


def test_a_stopped_identity_is_401_and_its_sessions_are_gone(begun: Caller, bot: Identity) -> None:
    lifecycle.suspend(actor=cast.admin(), identity=bot, reason="It ran wild")
    assert begun.post(request("ping")).status == 401
    bot.refresh_from_db()
    lifecycle.activate(actor=cast.admin(), identity=bot, reason="It is tame again")
    begun.token = token(bot)
    assert begun.post(request("ping")).status == 404


def test_too_many_sessions_a_minute_are_429(caller: Caller) -> None:
    caller.begin()
    SessionStartCount.objects.update(total=60)
    count = SessionStartCount.objects.get()
    later = caller.post(initialize())
    if SessionStartCount.objects.count() == 1:
        assert (later.status, later.answer["error"]["data"]) == (429, {"reason": "limited"})
        assert 1 <= int(str(later.header("retry-after"))) <= 60
        count.refresh_from_db()
        assert count.total == 61


@pytest.mark.parametrize("method", ["GET", "PUT", "HEAD"])
def test_there_is_no_stream_to_open(begun: Caller, method: str) -> None:
    response = begun._send(method, begun.headers(), [])
    assert (response.status, response.header("allow")) == (405, "POST, DELETE")


ODD_BEGINNINGS = {
    "no params": {"jsonrpc": "2.0", "id": 1, "method": "initialize"},
    "params that are an array": {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": []},
    "no version": request("initialize", capabilities={}),
    "a version that is a number": initialize(5),
    "capabilities that are an array": request("initialize", protocolVersion=NEWEST, capabilities=[]),
}


@pytest.mark.parametrize("sent", ODD_BEGINNINGS.values(), ids=ODD_BEGINNINGS)
def test_a_beginning_without_a_version_is_refused(caller: Caller, sent: Any) -> None:
    assert refusal(caller.post(sent)) == (400, -32602)


def test_initialize_is_a_request(caller: Caller) -> None:
    sent = initialize()
    del sent["id"]
    assert refusal(caller.post(sent)) == (400, -32600)


CAPABILITIES: dict[str, tuple[dict[str, Any], set[str]]] = {
    "none": ({}, set()),
    "all": (
        {
            "roots": {"listChanged": True},
            "sampling": {"tools": {}, "context": {}},
            "elicitation": {"form": {}, "url": {}},
        },
        {"roots", "roots.listChanged", "sampling", "sampling.tools", "elicitation.form", "elicitation.url"},
    ),
    "plain": ({"roots": {}, "sampling": {}, "elicitation": {}}, {"roots", "sampling", "elicitation.form"}),
    "URLs alone": ({"elicitation": {"url": {}}}, {"elicitation.url"}),
    "odd": ({"roots": 1, "sampling": None, "elicitation": [], "roots.listChanged": {}}, set()),
}


@pytest.mark.parametrize(("declared", "expected"), CAPABILITIES.values(), ids=CAPABILITIES)
def test_the_capabilities_of_a_client_are_read_from_its_beginning(declared: Any, expected: set[str]) -> None:
    sent = request("initialize", protocolVersion=NEWEST, capabilities=declared)
    parsed = message_parser.parse_initialize(sent)
    assert parsed == InitializeRequest(1, NEWEST, frozenset(expected))


# What is served.


@pytest.mark.parametrize("method", ["notifications/initialized", "notifications/roots/list_changed", "x", ""])
def test_a_notification_is_accepted(begun: Caller, method: str) -> None:
    response = begun.post(notification(method))
    assert (response.status, response.body) == (202, b"")


def test_tools_are_listed_in_pages(begun: Caller) -> None:
    listed = [{"name": f"t{number:04}", "inputSchema": {"type": "object"}} for number in range(150)]
    begun.gateway.listing = ToolListing(cast.agent("other").pk, listed)
    first = begun.post(request("tools/list")).answer["result"]
    methods.validate_server_result("tools/list", NEWEST, first)
    assert first.keys() == {"tools", "nextCursor"}
    second = begun.post(request("tools/list", cursor=first["nextCursor"])).answer["result"]
    assert first["tools"] + second["tools"] == listed
    assert refusal(begun.post(request("tools/list", cursor="nonsense"))) == (200, -32602)


def test_a_tool_is_called(begun: Caller) -> None:
    sent = call(id="mine", _meta={"gatehouse/context": {"conversation_id": "c"}})
    response = begun.post(sent)
    assert (response.status, response.header("content-type")) == (200, "application/json")
    assert response.header("x-call-id") == str(CALL)
    assert response.answer == {
        "jsonrpc": "2.0", "id": "mine",
        "result": {"content": [{"type": "text", "text": "done"}], "_meta": {"gatehouse/call_id": str(CALL)}},
    }  # fmt: skip
    [asked] = begun.gateway.asked
    assert (asked.server, asked.tool, asked.arguments) == ("todo", "create", {"title": "milk"})
    assert asked.context.thread_id == "c"
    assert len(asked.cancel_key) == 64


def test_a_call_of_today_has_no_key_to_cancel_it_by(caller: Caller) -> None:
    caller.post(asking.message(), mcp_protocol_version=MODERN, mcp_method="tools/call", mcp_name="todo__create")
    [asked] = caller.gateway.asked
    assert asked.cancel_key == ""


def test_structured_content_is_an_object(begun: Caller) -> None:
    begun.gateway.outcome = made("success", result={"content": [], "structuredContent": [1]})
    assert begun.post(call()).answer["result"]["structuredContent"] == {"result": [1]}


def test_progress_and_the_result_come_on_one_stream(begun: Caller) -> None:
    async def work(ask: Any) -> Any:
        await ask.on_progress({"progress": 1, "total": 2})
        return DONE

    begun.gateway.outcome = work
    progress, answer = begun.post(call(_meta={"progressToken": "mine"})).events
    assert progress["params"] == {"progressToken": "mine", "progress": 1, "total": 2}
    assert answer["result"]["content"]


def test_a_refusal_is_a_result_with_its_reason(begun: Caller) -> None:
    begun.gateway.outcome = refused("permission_denied", "grant_expired", "The grant has ended.")
    result = begun.post(call()).answer["result"]
    assert result["isError"] is True
    assert result["_meta"]["gatehouse/denied"]["reason"] == "grant_expired"


def test_capabilities_that_a_tool_lacks_are_told_as_a_result(begun: Caller) -> None:
    """The error for it is of 2026-07-28."""
    needs = made("error", "invalid_parameters", "It needs sampling.", required_capabilities=("sampling",))
    begun.gateway.outcome = needs
    assert begun.post(call()).answer["result"]["isError"] is True


STATUSES: dict[str, tuple[Any, tuple[int, int]]] = {
    "an unknown method": (request("resources/list"), (200, -32601)),
    "discovery": (request("server/discover"), (200, -32601)),
    "params that are an array": ({**request("ping"), "params": []}, (200, -32602)),
    "_meta that is a string": (request("ping", _meta="x"), (200, -32602)),
    "a call without a name": (request("tools/call"), (200, -32602)),
    "a call with odd arguments": (call(arguments=[]), (200, -32602)),
    "an odd progress token": (call(_meta={"progressToken": True}), (200, -32602)),
    "a float id": (request("ping", id=1.5), (400, -32600)),
    "a null id": (request("ping", id=None), (400, -32600)),
    "no jsonrpc": ({"id": 1, "method": "ping"}, (400, -32600)),
    "a number": (5, (400, -32600)),
    "a response that nobody waits for": ({"jsonrpc": "2.0", "id": 1, "result": {}}, (404, 404)),
    "an error that nobody waits for": ({"jsonrpc": "2.0", "id": 1, "error": {}}, (404, 404)),
    "an array": ([request("ping")], (400, -32600)),
}


@pytest.mark.parametrize(("sent", "expected"), STATUSES.values(), ids=STATUSES)
def test_an_error_has_one_status(begun: Caller, sent: Any, expected: tuple[int, int]) -> None:
    assert refusal(begun.post(sent)) == expected


@pytest.mark.parametrize("capabilities", [5, None, [[]], {"sampling": {}}])
def test_metadata_of_another_revision_means_nothing_in_a_session(begun: Caller, capabilities: Any) -> None:
    meta = {**asking.META, "io.modelcontextprotocol/clientCapabilities": capabilities}
    assert begun.post(call(_meta=meta)).answer["result"]["content"]


def test_what_is_not_json_or_too_long_is_refused(begun: Caller) -> None:
    assert refusal(begun._send("POST", begun.headers(), [b"{"])) == (400, -32700)
    assert begun._send("POST", begun.headers(), [b" " * (4 * 2**20 + 1)]).status == 413


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        (refused("permission_denied", "not_granted", "No.", tool_is_visible=False), (200, -32602)),
        (RecordUnavailable(), (200, -32603)),
        (KeyError("secret"), (200, -32603)),
        (UNKNOWN, (401, 401)),
    ],
)
def test_what_becomes_of_a_call_has_one_status(begun: Caller, outcome: Any, expected: tuple[int, int]) -> None:
    begun.gateway.outcome = outcome
    response = begun.post(call(id=7))
    assert refusal(response) == expected
    assert response.answer["id"] == 7
    assert b"secret" not in response.body


# Cancelling.


def test_a_cancelled_call_is_owed_no_answer(begun: Caller) -> None:
    begun.gateway.outcome = made("error", "cancelled", "The caller cancelled the call.")
    response = begun.post(call())
    assert (response.status, response.events) == (200, [])


def test_a_cancelled_call_whose_stream_is_open_ends_it(begun: Caller) -> None:
    async def work(ask: Any) -> Any:
        await ask.on_progress({"progress": 1})
        return made("error", "cancelled", "The caller cancelled the call.")

    begun.gateway.outcome = work
    [progress] = begun.post(call(_meta={"progressToken": 1})).events
    assert progress["method"] == "notifications/progress"


def lease(of: Identity, cancel_key: str) -> Call:
    return Call.objects.create(
        agent_id=of.pk, server_id=CALL, tool_id=CALL, owner=CALL, deadline=clock.database_now(), row={},
        cancel_key=cancel_key,
    )  # fmt: skip


def test_a_posted_cancellation_marks_the_one_call_that_it_names(begun: Caller, bot: Identity) -> None:
    keys = {}
    for given in (1, "1", 2):
        begun.post(call(id=given))
        keys[given] = begun.gateway.asked[-1].cancel_key
    leases = {given: lease(bot, key) for given, key in keys.items()}
    others, unkeyed = lease(cast.agent("other"), keys[1]), lease(bot, "")
    assert begun.post(notification("notifications/cancelled", requestId=1)).status == 202
    stopped = {row.pk for row in Call.objects.filter(stop_reason="cancelled")}
    assert stopped == {leases[1].pk}
    assert {others.pk, unkeyed.pk, leases["1"].pk, leases[2].pk} == {
        row.pk for row in Call.objects.filter(stop_reason="")
    }


@pytest.mark.parametrize("params", [{}, {"requestId": None}, {"requestId": 5}, {"requestId": [1]}])
def test_a_cancellation_of_nothing_changes_nothing(begun: Caller, bot: Identity, params: Any) -> None:
    lease(bot, ""), lease(bot, "x")
    assert begun.post(notification("notifications/cancelled", **params)).status == 202
    assert not Call.objects.exclude(stop_reason="").exists()


def test_todays_protocol_drops_posted_cancellations(begun: Caller, bot: Identity) -> None:
    begun.post(call())
    row = lease(bot, begun.gateway.asked[-1].cancel_key)
    sent = notification("notifications/cancelled", requestId=1)
    assert begun.post(sent, mcp_protocol_version=MODERN).status == 202
    row.refresh_from_db()
    assert row.stop_reason == ""


# Arrays of messages.


@pytest.fixture
def old(caller: Caller) -> Caller:
    caller.begin(OLDEST)
    return caller


def test_an_array_is_answered_by_an_array(old: Caller) -> None:
    response = old.post(
        [call(id="a"), notification("x"), request("no/such", id=2), 5, request("ping", id="1"), {"result": 1}]
    )
    assert response.status == 200
    called, unknown, odd, ping = response.answer
    assert (called["id"], called["result"]["content"]) == ("a", [{"type": "text", "text": "done"}])
    assert (unknown["id"], unknown["error"]["code"]) == (2, -32601)
    assert (odd["id"], odd["error"]["code"]) == (None, -32600)
    assert ping == {"jsonrpc": "2.0", "id": "1", "result": {}}


def test_each_call_of_an_array_is_decided_by_itself(old: Caller) -> None:
    async def work(ask: Any) -> Any:
        if ask.tool == "create":
            return DONE
        if ask.tool == "break":
            raise KeyError("secret")
        reason = "cancelled" if ask.tool == "cancel" else "timeout"
        return made("error", reason, "No.")

    old.gateway.outcome = work
    names = ("create", "break", "cancel", "late")
    answers = old.post([call(id=name, name=f"todo__{name}") for name in names]).answer
    assert [answer["id"] for answer in answers] == ["create", "break", "late"]
    done, broken, late = answers
    assert "isError" not in done["result"]
    assert broken["error"]["data"] == {"reason": "unexpected"}
    assert late["result"]["_meta"]["gatehouse/failed"]["reason"] == "timeout"
    assert len({asked.cancel_key for asked in old.gateway.asked}) == 4
    assert len({asked.call_id for asked in old.gateway.asked}) == 4


def test_an_array_that_asks_nothing_is_accepted(old: Caller) -> None:
    response = old.post([notification("notifications/initialized"), {"jsonrpc": "2.0", "id": 1, "result": {}}])
    assert (response.status, response.body) == (202, b"")


def test_an_array_of_cancelled_calls_is_owed_no_answer(old: Caller) -> None:
    old.gateway.outcome = made("error", "cancelled", "The caller cancelled the call.")
    response = old.post([call(id=1), call(id=2)])
    assert (response.status, response.events) == (200, [])


BAD_ARRAYS = {
    "empty": [],
    "51": [request("ping", id=number) for number in range(51)],
    "initialize": [initialize(), call()],
}


@pytest.mark.parametrize("sent", BAD_ARRAYS.values(), ids=BAD_ARRAYS)
def test_an_array_has_bounds_and_none_of_it_is_done_beyond_them(old: Caller, sent: Any) -> None:
    assert refusal(old.post(sent)) == (400, -32600)
    assert not old.gateway.asked


def test_fifty_messages_are_served(old: Caller) -> None:
    assert len(old.post([request("ping", id=number) for number in range(50)]).answer) == 50


@pytest.mark.parametrize("version", ["2025-06-18", NEWEST])
def test_later_revisions_have_no_arrays(caller: Caller, version: str) -> None:
    caller.begin(version)
    assert refusal(caller.post([call()])) == (400, -32600)
    assert not caller.gateway.asked
