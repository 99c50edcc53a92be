"""JSON-RPC 2.0 messages, checked by hand: a schema validator per message would cost more than the rest of the call."""

import json
from collections.abc import Iterator
from typing import Any

import orjson

from mcp.protocol.upstream_errors import UpstreamError, UpstreamFault

Message = dict[str, Any]
RequestId = int | str
#: Longer error messages of a server are truncated, because people read them.
MAX_MESSAGE_CHARS = 2000


def encode(message: Message) -> bytes:
    try:
        return orjson.dumps(message)
    except TypeError:
        # `orjson` rejects integers beyond 64 bits and lone surrogates. Callers may send them, so pass them on.
        return json.dumps(message, separators=(",", ":"), allow_nan=False).encode()


def request(request_id: RequestId, method: str, params: Message | None = None) -> Message:
    message: Message = {"jsonrpc": "2.0", "id": request_id, "method": method}
    if params is not None:
        message["params"] = params
    return message


def notification(method: str, params: Message | None = None) -> Message:
    message: Message = {"jsonrpc": "2.0", "method": method}
    if params is not None:
        message["params"] = params
    return message


def result(request_id: RequestId, value: Message) -> Message:
    return {"jsonrpc": "2.0", "id": request_id, "result": value}


def error(request_id: RequestId | None, code: int, message: str) -> Message:
    return {"jsonrpc": "2.0", "id": request_id, "error": {"code": code, "message": message}}


def decode(raw: bytes | str) -> Iterator[Message]:
    """Yield the messages in a body: one, or several if a server of 2025-03-26 sends a batch."""
    try:
        value = orjson.loads(raw)
    except orjson.JSONDecodeError:
        raise UpstreamFault("protocol", "The server's answer is not JSON.", sent=True) from None
    for message in value if isinstance(value, list) else [value]:
        if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
            raise UpstreamFault("protocol", "The server's answer is not a JSON-RPC 2.0 message.", sent=True)
        yield message


def is_answer_to(message: Message, request_id: RequestId) -> bool:
    """Whether the message answers the request. An error has no id if the server could not read the request's id."""
    if "method" in message:
        return False
    answer_id = message.get("id")
    # `1`, `1.0` and `true` are equal in Python but are three different ids in the protocol.
    if type(answer_id) is type(request_id) and answer_id == request_id:
        return True
    return answer_id is None and "error" in message


def read_result(message: Message, *, status: int = 0) -> Message:
    """Return the result of an answer, or raise its error."""
    if "error" in message:
        raise parse_error(message["error"], status=status)
    value = message.get("result")
    if not isinstance(value, dict):
        raise UpstreamFault("protocol", "The server's answer has neither a result nor an error.", sent=True)
    return value


def parse_error(value: Any, *, status: int = 0) -> UpstreamError | UpstreamFault:
    code = value.get("code") if isinstance(value, dict) else None
    if not isinstance(code, int) or isinstance(code, bool):
        return UpstreamFault("protocol", "The server's answer is an error without a code.", sent=True, status=status)
    message = value.get("message")
    text = message if isinstance(message, str) else ""
    return UpstreamError(code, text[:MAX_MESSAGE_CHARS], value.get("data"), status=status)
