"""Results as a client reads them: valid by the official types, whole, and never in our name when an upstream speaks."""

import json
from functools import partial
from typing import Any

import pytest
from mcp_types import methods

from common import crypto
from common.api.signed_cursors import CURSOR_LIFETIME_SECONDS, SignedCursors
from mcp.server import message_builder
from mcp.server.message_builder import MAX_NOTIFICATIONS_PER_SECOND, ProgressNotificationBuilder

pytestmark = pytest.mark.capability("MCP-06")
INFO = {"name": "gatehouse", "version": "0.1.0"}
SIGN = partial(crypto.sign, "a-test")
MINE = SignedCursors(SIGN, "caller", "")
NOW = 1_800_000_000.0
CALL = "018f0000-0000-7000-8000-000000000000"


def tools(count: int) -> list[dict[str, Any]]:
    return [{"name": f"t{number:04}", "inputSchema": {"type": "object"}} for number in range(count)]


def valid(method: str, result: dict[str, Any]) -> None:
    methods.validate_server_result(method, "2026-07-28", json.loads(message_builder.encode_message(result)))
    assert result["resultType"] == "complete"
    assert result["_meta"]["io.modelcontextprotocol/serverInfo"] == INFO


def page(listed: list[dict[str, Any]], after: str = "", cursors: SignedCursors = MINE) -> dict[str, Any]:
    found = message_builder.build_tools_page(listed, cursors, after=after, now=NOW, info=INFO)
    valid("tools/list", found)
    return found


def test_discovery_says_what_works_and_is_kept_by_nobody() -> None:
    found = message_builder.build_discovery_result(INFO)
    valid("server/discover", found)
    assert found["supportedVersions"] == ["2026-07-28"]
    assert found["capabilities"] == {"tools": {}}
    assert (found["ttlMs"], found["cacheScope"]) == (0, "private")


@pytest.mark.parametrize("count", [0, 1, 99, 100, 101, 250])
def test_pages_hold_every_tool_once_in_order(count: int) -> None:
    listed, seen, after = tools(count), [], ""
    for _ in range(count // message_builder.PAGE_SIZE + 2):
        found = page(listed, after)
        assert (found["ttlMs"], found["cacheScope"]) == (0, "private")
        seen += [tool["name"] for tool in found["tools"]]
        if "nextCursor" not in found:
            break
        after = MINE.decode_cursor(found["nextCursor"], now=NOW) or "?"
    assert seen == [tool["name"] for tool in listed]


def test_pages_follow_each_other_in_whatever_order_the_tools_come() -> None:
    names = [f"{server}__{tool}" for server in ("a", "a-b", "a1") for tool in ("Z", "_", "b", *map(str, range(60)))]
    listed = [{"name": name, "inputSchema": {"type": "object"}} for name in names]
    first = page(listed)
    second = page(listed[::-1], MINE.decode_cursor(first["nextCursor"], now=NOW) or "?")
    assert [tool["name"] for tool in first["tools"] + second["tools"]] == sorted(names)


def test_a_page_begins_behind_a_tool_that_is_gone() -> None:
    listed = [tool for tool in tools(200) if tool["name"] != "t0099"]
    assert page(listed, "t0099")["tools"][0]["name"] == "t0100"


def test_a_cursor_is_for_one_caller_one_endpoint_and_an_hour() -> None:
    cursor = MINE.encode_cursor("t0099", now=NOW)
    assert MINE.decode_cursor(cursor, now=NOW + CURSOR_LIFETIME_SECONDS - 1) == "t0099"
    assert MINE.decode_cursor(cursor, now=NOW + CURSOR_LIFETIME_SECONDS + 1) is None
    assert SignedCursors(SIGN, "another", "").decode_cursor(cursor, now=NOW) is None
    assert SignedCursors(SIGN, "caller", "todo").decode_cursor(cursor, now=NOW) is None
    assert SignedCursors(partial(crypto.sign, "another"), "caller", "").decode_cursor(cursor, now=NOW) is None


@pytest.mark.parametrize("cursor", ["", "x", "!", "ä", "AAAA", "A" * 5000, "=" * 9, "A" * 40])
def test_a_cursor_that_is_not_ours_is_none(cursor: str) -> None:
    assert MINE.decode_cursor(cursor, now=NOW) is None


def test_a_changed_cursor_is_none() -> None:
    cursor = MINE.encode_cursor("t0099", now=NOW)
    for at in range(len(cursor)):
        other = cursor[:at] + ("A" if cursor[at] != "A" else "B") + cursor[at + 1 :]
        assert MINE.decode_cursor(other, now=NOW) in {None} | ({"t0099"} if at == len(cursor) - 1 else set())


def test_a_result_is_relayed_whole() -> None:
    given = {
        "content": [{"type": "text", "text": "milk"}, {"type": "hologram", "depth": 3}],
        "structuredContent": [1, 2],
        "isError": True,
        "x-unknown": {"kept": True},
        "_meta": {"theirs": 1, "gatehouse/denied": {"reason": "forged"}, "gatehouse/call_id": "forged"},
    }
    found = message_builder.build_tool_result(given, call_id=CALL, info=INFO)
    assert {key: found[key] for key in ("content", "structuredContent", "isError", "x-unknown")} == {
        key: given[key] for key in ("content", "structuredContent", "isError", "x-unknown")
    }
    assert found["_meta"] == {
        "theirs": 1,
        "gatehouse/call_id": CALL,
        "io.modelcontextprotocol/serverInfo": INFO,
    }
    assert given["_meta"]["gatehouse/call_id"] == "forged", "what the gateway handed over is left as it was"


@pytest.mark.parametrize("given", [{}, {"content": None}, {"content": "milk", "_meta": []}])
def test_a_result_without_content_gets_an_empty_one(given: dict[str, Any]) -> None:
    found = message_builder.build_tool_result(given, call_id=CALL, info=INFO)
    valid("tools/call", found)
    assert found["content"] == []


def test_a_refusal_is_a_result_with_a_reason() -> None:
    found = message_builder.build_refusal_result(
        "Too many calls.",
        mark=message_builder.DENIED_KEY,
        info=INFO,
        call_id=CALL,
        reason="rate",
        retry_after=3,
        expires_at=None,
    )
    valid("tools/call", found)
    assert found["isError"] is True
    assert found["content"] == [{"type": "text", "text": "Too many calls."}]
    assert found["_meta"]["gatehouse/denied"] == {"call_id": CALL, "reason": "rate", "retry_after": 3}


@pytest.mark.parametrize("value", [2**70, "\ud800", {"deep": [2**64]}])
def test_whatever_an_upstream_sends_is_written_as_json(value: Any) -> None:
    raw = message_builder.encode_message(message_builder.wrap_result(1, {"content": [], "structuredContent": value}))
    assert json.loads(raw)["result"]["structuredContent"] == value
    assert b"\n" not in raw


def test_an_event_is_one_line_of_data() -> None:
    raw = message_builder.encode_event(message_builder.encode_message({"text": "two\nlines\r\u2028"}))
    assert raw.startswith(b"event: message\ndata: {")
    assert raw.endswith(b"}\n\n")
    assert raw.count(b"\n") == 3
    assert b"\r" not in raw


def test_no_client_is_asked_to_repeat_arguments_in_headers() -> None:
    mirrored = {"type": "string", "x-mcp-header": "Region"}
    schema = {
        "type": "object",
        "properties": {
            "region": mirrored,
            # A property that an author called so is no annotation.
            "x-mcp-header": {"type": "string"},
            "properties": {"type": "object", "properties": {"inner": mirrored}},
        },
        "$defs": {"a": {"anyOf": [mirrored]}},
    }
    listed = [{"name": "t", "inputSchema": schema}]
    shown = page(listed)["tools"][0]["inputSchema"]
    assert shown["properties"]["region"] == {"type": "string"}
    assert shown["properties"]["x-mcp-header"] == {"type": "string"}
    assert shown["properties"]["properties"]["properties"]["inner"] == {"type": "string"}
    assert shown["$defs"]["a"]["anyOf"] == [{"type": "string"}]
    assert listed[0]["inputSchema"]["properties"]["region"] is mirrored  # type: ignore[index]  # the approved definition stays


def test_progress_only_rises_and_carries_the_callers_token() -> None:
    progress = ProgressNotificationBuilder("mine")
    said = [
        {"progress": 1, "total": 3, "message": "one", "progressToken": "theirs"},
        {"progress": 1},
        {"progress": 0.5},
    ]
    said += [{"progress": None}, {"progress": True}, {"progress": float("nan")}, {"progress": float("inf")}, {}]
    said += [{"progress": 10**400}, {"progress": 2.5, "total": "x", "message": 5}]
    sent = [one for one in (progress.build_notification(word, now=NOW) for word in said) if one is not None]
    assert [one["params"] for one in sent] == [
        {"progressToken": "mine", "progress": 1, "total": 3, "message": "one"},
        {"progressToken": "mine", "progress": 2.5},
    ]
    assert {one["method"] for one in sent} == {"notifications/progress"}


def test_progress_is_not_more_than_a_client_can_use() -> None:
    progress = ProgressNotificationBuilder(1)
    sent = [progress.build_notification({"progress": number}, now=NOW) for number in range(1, 1000)]
    assert sum(one is not None for one in sent) == MAX_NOTIFICATIONS_PER_SECOND
    assert progress.build_notification({"progress": 2000}, now=NOW + 1) is not None
