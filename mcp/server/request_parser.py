"""The requests of protocol 2026-07-28: stateless, each with its own metadata. The first check that fails answers."""

from dataclasses import dataclass, field
from typing import Any

from common import strict_json
from mcp.server import errors
from mcp.server.errors import Refusal, RequestId, http, protocol
from mcp.server.heads import Head

VERSION = "2026-07-28"
SUPPORTED = (VERSION,)
HANDSHAKE = frozenset({"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"})
LARGEST = 4 * 1024 * 1024
LONGEST_ID, LONGEST_NAME = 1000, 300
WHOLE_NUMBERS = range(-(2**63), 2**63)
PROTOCOL_VERSION = "io.modelcontextprotocol/protocolVersion"
CLIENT_CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
#: Where a client says which conversation a call belongs to; the specification has no word for it.
CONTEXT = "gatehouse/context"
#: Its fields and the longest that each may be, at every door.
CONTEXT_FIELDS = {"conversation_id": 200, "session_id": 200, "task_id": 200, "user_instruction": 4000}
METHODS = frozenset({"server/discover", "tools/list", "tools/call"})
#: What `Mcp-Name` repeats. Two are methods that are not served here, and are told so only when the header is right.
NAMED = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}


@dataclass(frozen=True, slots=True)
class Request:
    id: RequestId
    method: str
    version: str
    name: str = ""
    arguments: dict[str, Any] = field(default_factory=dict)
    cursor: str | None = None
    progress_token: RequestId | None = None
    context: dict[str, str] = field(default_factory=dict)
    #: What the client says it can do, by name.
    capabilities: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Notification:
    """Taken and dropped: the protocol has none that a server would act on, and an id in one proves no ownership."""


def read(head: Head, body: bytes) -> Request | Refusal | Notification:
    """What was asked, or why not."""
    if len(body) > LARGEST:
        return http(413, f"The body is longer than {LARGEST} bytes; that is the most.")
    try:
        message = strict_json.loads(body)
    except strict_json.StrictJsonError as error:
        return protocol(errors.PARSE_ERROR, str(error))
    malformed = _malformed(message)
    if malformed:
        return protocol(errors.INVALID_REQUEST, malformed)
    if "id" not in message:
        return _notified(head)
    found = _request(head, message["id"], message["method"], message.get("params"))
    return found.to(message["id"]) if isinstance(found, Refusal) else found


def _malformed(message: Any) -> str:
    if not isinstance(message, dict):
        return "Send one JSON-RPC object; arrays of them are not served."
    if "id" in message and not is_id(message["id"]):
        return "The id of a request is a string or a whole number."
    if message.get("jsonrpc") != "2.0" or not isinstance(message.get("method"), str):
        return 'A request has "jsonrpc": "2.0" and a method; answers are not taken here.'
    return ""


def is_id(value: Any) -> bool:
    """A string or a whole number that every reader reads alike; `True` is neither."""
    if isinstance(value, str):
        return len(value) <= LONGEST_ID
    return isinstance(value, int) and not isinstance(value, bool) and value in WHOLE_NUMBERS


def _notified(head: Head) -> Refusal | Notification:
    version = head.get("mcp-protocol-version")
    return Notification() if version in SUPPORTED else unsupported(version)


def _request(head: Head, given: RequestId, method: str, params: Any) -> Request | Refusal:
    meta: Any = params.get("_meta") if isinstance(params, dict) else None
    refused = _of_another_era(head, method, params, meta) or _metadata(params, meta) or _mismatch(head, method, params)
    if refused is not None:
        return refused
    version = meta[PROTOCOL_VERSION]
    if version not in SUPPORTED:
        return unsupported(version)
    if method not in METHODS:
        return protocol(errors.METHOD_NOT_FOUND, "There is no such method here.", method=method[:LONGEST_NAME])
    return _parameters(given, method, params, meta)


def _of_another_era(head: Head, method: str, params: Any, meta: Any) -> Refusal | None:
    """A client of a handshake version does not know the metadata; tell it which versions are spoken instead."""
    if isinstance(meta, dict) and PROTOCOL_VERSION in meta:
        return None
    version = head.get("mcp-protocol-version")
    if version in HANDSHAKE:
        return unsupported(version)
    if method == "initialize" and not version:
        offered = params.get("protocolVersion") if isinstance(params, dict) else None
        return unsupported(offered if isinstance(offered, str) else "")
    return None


def unsupported(requested: str) -> Refusal:
    said = f"This server speaks {', '.join(SUPPORTED)} of the protocol."
    return protocol(errors.UNSUPPORTED_VERSION, said, supported=list(SUPPORTED), requested=requested[:64])


def _metadata(params: Any, meta: Any) -> Refusal | None:
    if not isinstance(params, dict) or not isinstance(meta, dict):
        return _bad("A request has params with a _meta object.")
    if not isinstance(meta.get(PROTOCOL_VERSION), str):
        return _bad(f"params._meta must hold {PROTOCOL_VERSION}, a string.")
    if not isinstance(meta.get(CLIENT_CAPABILITIES), dict):
        return _bad(f"params._meta must hold {CLIENT_CAPABILITIES}, an object.")
    return None


def _mismatch(head: Head, method: str, params: dict[str, Any]) -> Refusal | None:
    """What stands in front of the body is what others route by: it must say the same, once."""
    if not head.says("mcp-protocol-version", params["_meta"][PROTOCOL_VERSION]):
        return _differs("MCP-Protocol-Version", f"_meta's {PROTOCOL_VERSION}")
    if not head.says("mcp-method", method):
        return _differs("Mcp-Method", "method")
    key = NAMED.get(method)
    if key is None:
        return _differs("Mcp-Name", "nothing") if "mcp-name" in head.repeated else None
    named = params.get(key)
    if not isinstance(named, str) or not named:
        return _bad(f"params.{key} must be a string.")
    return None if head.says("mcp-name", named) else _differs("Mcp-Name", f"params.{key}")


def _parameters(given: RequestId, method: str, params: dict[str, Any], meta: dict[str, Any]) -> Request | Refusal:
    token = meta.get("progressToken")
    if token is not None and not is_id(token):
        return _bad("A progressToken is a string or a whole number.")
    if method == "tools/call":
        return _call(given, params, meta, token)
    cursor = params.get("cursor")
    if cursor is not None and not isinstance(cursor, str):
        return _bad("A cursor is a string that a list before gave.")
    return Request(given, method, meta[PROTOCOL_VERSION], cursor=cursor)


def _call(given: RequestId, params: dict[str, Any], meta: dict[str, Any], token: RequestId | None) -> Request | Refusal:
    arguments, context = params.get("arguments", {}), meta.get(CONTEXT, {})
    if not isinstance(arguments, dict):
        return _bad("params.arguments must be an object.")
    if "inputResponses" in params or "requestState" in params:
        return _bad("This server asks for no further input, so there is no round to continue.")
    if not _is_context(context):
        limits = ", ".join(f"{name} (at most {longest})" for name, longest in CONTEXT_FIELDS.items())
        return _bad(f"_meta's {CONTEXT} is an object of strings: {limits}.")
    declared = frozenset(meta[CLIENT_CAPABILITIES])
    version = meta[PROTOCOL_VERSION]
    return Request(given, "tools/call", version, params["name"], arguments, None, token, context, declared)


def _is_context(context: Any) -> bool:
    return isinstance(context, dict) and all(
        isinstance(value, str) and len(value) <= CONTEXT_FIELDS.get(name, -1) for name, value in context.items()
    )


def _bad(message: str) -> Refusal:
    return protocol(errors.INVALID_PARAMS, message)


def _differs(header: str, field_name: str) -> Refusal:
    said = f"The header {header} must be there once and be the same as {field_name} in the body."
    return protocol(errors.HEADER_MISMATCH, said, header=header)
