"""Builds MCP messages: results, refusals, tool pages and progress notifications."""

import json
import math
from bisect import bisect_right
from collections.abc import Sequence
from typing import Any, TypeGuard

import orjson

from common.api.signed_cursors import SignedCursors
from mcp.server.errors import RequestId
from mcp.server.request_parser import SUPPORTED_VERSIONS

SERVER_INFO_KEY = "io.modelcontextprotocol/serverInfo"
#: Prefix of Gatehouse's names in `_meta`. An upstream's names with this prefix are removed, because it could imitate
#: Gatehouse.
META_PREFIX = "gatehouse/"
CALL_ID_KEY, DENIED_KEY, FAILED_KEY = f"{META_PREFIX}call_id", f"{META_PREFIX}denied", f"{META_PREFIX}failed"
PAGE_SIZE = 100
#: Lists depend on the caller and on grants, which may end at any moment.
NO_CACHING = {"ttlMs": 0, "cacheScope": "private"}
INSTRUCTIONS = (
    "The tools of this server are governed: each call is decided, limited and recorded. A refusal is a tool result "
    f'with isError and _meta["{DENIED_KEY}"], whose reason is stable; trying again at once does not help.'
)
MIRROR_KEYWORD = "x-mcp-header"

JsonObject = dict[str, Any]


def build_discovery_result(info: JsonObject) -> JsonObject:
    capabilities: JsonObject = {"tools": {}}
    discovery = {
        "supportedVersions": list(SUPPORTED_VERSIONS),
        "capabilities": capabilities,
        "instructions": INSTRUCTIONS,
    }
    return _complete_result({**discovery, **NO_CACHING}, info)


def build_tools_page(
    tools: Sequence[JsonObject], cursors: SignedCursors, *, after: str, now: float, info: JsonObject
) -> JsonObject:
    """Build a page of tools, sorted by name, that starts after the name `after`. That tool may be gone by now."""
    # Sorted here by code points: a database sorts by its own collation, in which pages could overlap or leave gaps.
    sorted_tools = sorted(tools, key=_tool_name)
    start = bisect_right(sorted_tools, after, key=_tool_name) if after else 0
    page = sorted_tools[start : start + PAGE_SIZE]
    page_result: JsonObject = {"tools": [_remove_mirroring(tool) for tool in page], **NO_CACHING}
    if start + PAGE_SIZE < len(sorted_tools):
        page_result["nextCursor"] = cursors.encode_cursor(page[-1]["name"], now=now)
    return _complete_result(page_result, info)


def build_tool_result(result: JsonObject, *, call_id: str, info: JsonObject) -> JsonObject:
    """Build the result of a call with all fields of the upstream's result, including unknown ones."""
    upstream_meta = result.get("_meta")
    meta = (
        {key: value for key, value in upstream_meta.items() if not key.startswith(META_PREFIX)}
        if isinstance(upstream_meta, dict)
        else {}
    )
    meta[CALL_ID_KEY] = call_id
    result_with_content = result if isinstance(result.get("content"), list) else {**result, "content": []}
    return _complete_result({**result_with_content, "_meta": meta}, info)


def build_refusal_result(message: str, *, mark: str, info: JsonObject, call_id: str, **details: Any) -> JsonObject:
    """Build the result of a call that was refused or failed: a message for models and a reason for programs."""
    facts = {name: value for name, value in details.items() if value is not None}
    content = [{"type": "text", "text": message}]
    meta: JsonObject = {mark: {"call_id": call_id, **facts}, CALL_ID_KEY: call_id} if call_id else {mark: facts}
    return _complete_result({"content": content, "isError": True, "_meta": meta}, info)


def wrap_result(request_id: RequestId, result: JsonObject) -> JsonObject:
    return {"jsonrpc": "2.0", "id": request_id, "result": result}


def encode_message(message: JsonObject | list[JsonObject]) -> bytes:
    try:
        return orjson.dumps(message)
    except TypeError:
        # Upstreams may send integers beyond 64 bits and lone surrogates, which orjson rejects.
        return json.dumps(message, separators=(",", ":"), allow_nan=False).encode()


def encode_event(message: bytes) -> bytes:
    """Encode a server-sent event. The encoded JSON contains no line breaks."""
    return b"event: message\ndata: " + message + b"\n\n"


def _tool_name(tool: JsonObject) -> str:
    return str(tool["name"])


def _complete_result(result: JsonObject, info: JsonObject) -> JsonObject:
    return {**result, "resultType": "complete", "_meta": {**result.get("_meta", {}), SERVER_INFO_KEY: info}}


def _remove_mirroring(tool: JsonObject) -> JsonObject:
    """Remove the keywords that make clients repeat arguments in headers, because proxies log headers.

    Decisions use only the body, so there are no mirrored headers to compare.
    """
    schema = tool.get("inputSchema")
    if not isinstance(schema, dict) or MIRROR_KEYWORD.encode() not in encode_message(schema):
        return tool
    return {**tool, "inputSchema": _strip_mirror_keywords(schema)}


def _strip_mirror_keywords(value: Any, *, names: bool = False) -> Any:
    """Remove the keyword. With `names`, the keys of `value` are property or definition names, not keywords."""
    if isinstance(value, list):
        return [_strip_mirror_keywords(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: _strip_mirror_keywords(item, names=not names and key in {"properties", "$defs", "definitions"})
        for key, item in value.items()
        if names or key != MIRROR_KEYWORD
    }


#: Notifications beyond this rate are dropped. The next one contains newer progress.
MAX_NOTIFICATIONS_PER_SECOND = 50
#: Exclusive upper limit. It also excludes infinity and NaN.
MAX_PROGRESS = 2**63


class ProgressNotificationBuilder:
    """Converts upstream progress updates of one call to notifications with the client's own progress token."""

    def __init__(self, token: RequestId) -> None:
        self._token = token
        self._last: float = -math.inf
        self._second, self._sent = 0, 0

    def build_notification(self, update: dict[str, Any], *, now: float) -> dict[str, Any] | None:
        """Build the notification for an upstream update, or None if its value does not rise or comes too fast."""
        value = update.get("progress")
        if not _is_number(value) or value <= self._last or not self._is_within_rate(int(now)):
            return None
        self._last = value
        params: dict[str, Any] = {"progressToken": self._token, "progress": value}
        if _is_number(update.get("total")):
            params["total"] = update["total"]
        if isinstance(update.get("message"), str):
            params["message"] = update["message"]
        return {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}

    def _is_within_rate(self, second: int) -> bool:
        if second != self._second:
            self._second, self._sent = second, 0
        self._sent += 1
        return self._sent <= MAX_NOTIFICATIONS_PER_SECOND


def _is_number(value: Any) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < MAX_PROGRESS
