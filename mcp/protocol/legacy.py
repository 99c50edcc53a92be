"""Messages of the handshake revisions, 2024-11-05 to 2025-11-25: `initialize` negotiates the version once."""

from dataclasses import dataclass
from typing import Any

from mcp_types.jsonrpc import INVALID_PARAMS, METHOD_NOT_FOUND
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, LATEST_HANDSHAKE_VERSION

from mcp.protocol.jsonrpc import Message, RequestId, error, notification, request, result
from mcp.protocol.modern import CLIENT_INFO
from mcp.protocol.upstream_errors import UpstreamError, UpstreamFault

LATEST = LATEST_HANDSHAKE_VERSION
INITIALIZE: Message = {"protocolVersion": LATEST, "capabilities": {}, "clientInfo": CLIENT_INFO}
INITIALIZED = notification("notifications/initialized")


def build_request(request_id: RequestId, method: str, params: Message, *, meta: Message) -> Message:
    """Build a request. Its params contain `_meta` unless the metadata is empty."""
    return request(request_id, method, {**params, "_meta": meta} if meta else params)


@dataclass(frozen=True)
class InitializeResult:
    """What the server declared in its answer to `initialize`."""

    protocol_version: str
    server_info: Message
    capabilities: Message
    instructions: str


def parse_initialize_result(answer: Message) -> InitializeResult:
    version = answer.get("protocolVersion")
    if version not in HANDSHAKE_PROTOCOL_VERSIONS:
        detail = f"The server wants protocol version {str(version)[:40]!r}, which is not spoken here."
        raise UpstreamFault("protocol", detail, sent=True)
    instructions = answer.get("instructions")
    return InitializeResult(
        str(version),
        _read_object(answer.get("serverInfo")),
        _read_object(answer.get("capabilities")),
        instructions if isinstance(instructions, str) else "",
    )


def build_reply(message: Message) -> Message | None:
    """Build the reply to a request of the server: a result for `ping`, an error for any other method.

    Return None if the message is not a request. The client declared no capability, so the server may not send other
    requests; without a reply the call would hang."""
    request_id = message.get("id")
    if "method" not in message or not isinstance(request_id, int | str):
        return None
    if message["method"] == "ping":
        return result(request_id, {})
    return error(request_id, METHOD_NOT_FOUND, "This client offers nothing that a server could call.")


def cancelled_notification(request_id: RequestId, reason: str) -> Message:
    return notification("notifications/cancelled", {"requestId": request_id, "reason": reason})


def session_is_gone(status: int, answer: UpstreamError | None) -> bool:
    """Whether a refused request means that the server has ended the session.

    The specification uses 404. Many servers, such as the TypeScript SDK examples, answer 400 and mention the session in
    the message. An error that blames the method or its parameters is an answer: it must not cause a second call."""
    if answer is None:
        return status == 404
    if answer.code in {METHOD_NOT_FOUND, INVALID_PARAMS}:
        return False
    return status == 404 or (status == 400 and "session" in answer.message.lower())


def _read_object(value: Any) -> Message:
    return value if isinstance(value, dict) else {}
