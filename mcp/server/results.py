"""Results as clients of protocol 2026-07-28 read them: what an upstream says is relayed, what we must say is added."""

import json
from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

import orjson

from common.api.signed_cursors import SignedCursors
from mcp.server.errors import RequestId
from mcp.server.request_parser import SUPPORTED

SERVER_INFO = "io.modelcontextprotocol/serverInfo"
#: Names of ours in `_meta`. An upstream that uses them would speak in our name.
OWN = "gatehouse/"
CALL_ID, DENIED, FAILED = f"{OWN}call_id", f"{OWN}denied", f"{OWN}failed"
PAGE = 100
#: Lists depend on who asks, and on grants that may end at any moment.
NOT_KEPT = {"ttlMs": 0, "cacheScope": "private"}
INSTRUCTIONS = (
    "The tools of this server are governed: each call is decided, limited and recorded. A refusal is a tool result "
    f'with isError and _meta["{DENIED}"], whose reason is stable; trying again at once does not help.'
)
MIRROR = "x-mcp-header"

Json = dict[str, Any]


def discovered(info: Json) -> Json:
    capabilities: Json = {"tools": {}}
    said = {"supportedVersions": list(SUPPORTED), "capabilities": capabilities, "instructions": INSTRUCTIONS}
    return _complete({**said, **NOT_KEPT}, info)


def tools_page(tools: Sequence[Json], cursors: SignedCursors, *, after: str, now: float, info: Json) -> Json:
    """A page of tools by name, beginning behind `after`, which need not be there any more."""
    # Here and by code points: databases order names by rules of their own, in which a page would not end where the
    # next begins.
    ordered = sorted(tools, key=_name)
    begin = bisect_right(ordered, after, key=_name) if after else 0
    page = ordered[begin : begin + PAGE]
    listed: Json = {"tools": [_unmirrored(tool) for tool in page], **NOT_KEPT}
    if begin + PAGE < len(ordered):
        listed["nextCursor"] = cursors.encode_cursor(page[-1]["name"], now=now)
    return _complete(listed, info)


def tool_result(result: Json, *, call_id: str, info: Json) -> Json:
    """An upstream's result with every field it has, known here or not."""
    given = result.get("_meta")
    meta = {key: value for key, value in given.items() if not key.startswith(OWN)} if isinstance(given, dict) else {}
    meta[CALL_ID] = call_id
    whole = result if isinstance(result.get("content"), list) else {**result, "content": []}
    return _complete({**whole, "_meta": meta}, info)


def refused_call(message: str, *, mark: str, info: Json, call_id: str, **said: Any) -> Json:
    """A call that was refused, or came to nothing, as a result: the model reads the sentence, programs the reason."""
    facts = {name: value for name, value in said.items() if value is not None}
    content = [{"type": "text", "text": message}]
    meta: Json = {mark: {"call_id": call_id, **facts}, CALL_ID: call_id} if call_id else {mark: facts}
    return _complete({"content": content, "isError": True, "_meta": meta}, info)


def envelope(request: RequestId, result: Json) -> Json:
    return {"jsonrpc": "2.0", "id": request, "result": result}


def encode(message: Json) -> bytes:
    try:
        return orjson.dumps(message)
    except TypeError:
        # Whole numbers past 64 bits and half surrogates, which an upstream may send and orjson does not write.
        return json.dumps(message, separators=(",", ":"), allow_nan=False).encode()


def event(message: bytes) -> bytes:
    """As a server-sent event. JSON of ours has no line breaks."""
    return b"event: message\ndata: " + message + b"\n\n"


def _name(tool: Json) -> str:
    return str(tool["name"])


def _complete(result: Json, info: Json) -> Json:
    return {**result, "resultType": "complete", "_meta": {**result.get("_meta", {}), SERVER_INFO: info}}


def _unmirrored(tool: Json) -> Json:
    """Without the wish to have arguments repeated in headers, which land in the logs of proxies.

    What is not asked for need not be compared: decisions here rest on the body alone.
    """
    schema = tool.get("inputSchema")
    if not isinstance(schema, dict) or MIRROR.encode() not in encode(schema):
        return tool
    return {**tool, "inputSchema": _without_mirrors(schema)}


def _without_mirrors(value: Any, *, names: bool = False) -> Any:
    """`names` where the keys are names that the schema's author chose, and no keywords."""
    if isinstance(value, list):
        return [_without_mirrors(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: _without_mirrors(item, names=not names and key in {"properties", "$defs", "definitions"})
        for key, item in value.items()
        if names or key != MIRROR
    }
