"""Parses the JSON-RPC messages of handshake clients. The first check that fails determines the error."""

from dataclasses import dataclass
from typing import Any

from mcp.server import errors
from mcp.server.errors import ErrorResponse, RequestId, protocol_error
from mcp.server.request_headers import RequestHeaders, may_have_session
from mcp.server.request_parser import (
    MAX_NAME_CHARS,
    PROTOCOL_VERSION_KEY,
    McpNotification,
    McpRequest,
    find_envelope_problem,
    invalid_params_error,
    is_request_id,
    parse_parameters,
)

#: The revisions that are served. The position of a revision is part of session ids.
SERVED_VERSIONS = ("2025-03-26", "2025-06-18", "2025-11-25")
#: The answer to a client that asks for another revision.
LATEST_SERVED_VERSION = SERVED_VERSIONS[-1]
#: The only revision with arrays of messages.
BATCH_VERSION = "2025-03-26"
MAX_BATCH_MESSAGES = 50
SESSION_METHODS = frozenset({"ping", "tools/list", "tools/call"})


@dataclass(frozen=True, slots=True)
class InitializeRequest:
    """A request to start a session: the revision to serve, and the capabilities that the client declares."""

    id: RequestId
    version: str
    capabilities: frozenset[str]


@dataclass(frozen=True, slots=True)
class CancelNotification:
    """The client cancels the request with this id."""

    request_id: RequestId


@dataclass(frozen=True, slots=True)
class PostedResponse:
    """A response to a request of the server."""


SessionMessage = McpRequest | McpNotification | CancelNotification | PostedResponse | ErrorResponse


def uses_handshake(headers: RequestHeaders, message: Any) -> bool:
    """Whether a handshake client sent this message: by the version header, and without that by the message."""
    if not may_have_session(headers):
        return False
    return bool({"mcp-protocol-version", "mcp-session-id"} & headers.values.keys()) or not _has_modern_metadata(message)


def is_initialize(message: Any) -> bool:
    return isinstance(message, dict) and message.get("method") == "initialize"


def read_request_id(message: Any) -> RequestId | None:
    """Return the id of a message that is not checked yet, for an error that does not concern the message itself."""
    request_id = message.get("id") if isinstance(message, dict) and "method" in message else None
    return request_id if is_request_id(request_id) else None


def parse_initialize(message: dict[str, Any]) -> InitializeRequest | ErrorResponse:
    problem = find_envelope_problem(message) or ("" if "id" in message else "initialize is a request and has an id.")
    if problem:
        return protocol_error(errors.INVALID_REQUEST, problem)
    request_id, params = message["id"], message.get("params")
    version = params.get("protocolVersion") if isinstance(params, dict) else None
    capabilities = params.get("capabilities", {}) if isinstance(params, dict) else None
    if not isinstance(version, str) or not isinstance(capabilities, dict):
        text = "params must hold protocolVersion, a string, and capabilities, an object."
        return invalid_params_error(text).with_id(request_id)
    served_version = version if version in SERVED_VERSIONS else LATEST_SERVED_VERSION
    return InitializeRequest(request_id, served_version, _read_capabilities(capabilities))


def parse_batch(messages: list[Any], version: str) -> list[SessionMessage] | ErrorResponse:
    """Parse an array of messages. An error of one message does not concern the others."""
    if version != BATCH_VERSION:
        problem = f"Send one JSON-RPC object; only revision {BATCH_VERSION} has arrays of them."
    elif not 0 < len(messages) <= MAX_BATCH_MESSAGES:
        problem = f"An array has 1 to {MAX_BATCH_MESSAGES} messages."
    elif any(is_initialize(message) for message in messages):
        problem = "initialize is sent alone."
    else:
        return [parse_message(message, version) for message in messages]
    return protocol_error(errors.INVALID_REQUEST, problem)


def parse_message(message: Any, version: str) -> SessionMessage:
    if _is_response(message):
        return PostedResponse()
    problem = find_envelope_problem(message)
    if problem:
        return protocol_error(errors.INVALID_REQUEST, problem)
    if "id" not in message:
        return _parse_notification(message)
    request = _parse_request(message["id"], message["method"], message.get("params", {}), version)
    return request.with_id(message["id"]) if isinstance(request, ErrorResponse) else request


def _has_modern_metadata(message: Any) -> bool:
    """Whether the message names its protocol version itself, as messages since 2026-07-28 do."""
    params = message.get("params") if isinstance(message, dict) else None
    meta = params.get("_meta") if isinstance(params, dict) else None
    return isinstance(meta, dict) and PROTOCOL_VERSION_KEY in meta


def _read_capabilities(declared: dict[str, Any]) -> frozenset[str]:
    """Return the names of the declared capabilities. An elicitation without a mode means forms."""
    roots, sampling, elicitation = (declared.get(name) for name in ("roots", "sampling", "elicitation"))
    presence = {
        "roots": isinstance(roots, dict),
        "roots.listChanged": isinstance(roots, dict) and roots.get("listChanged") is True,
        "sampling": isinstance(sampling, dict),
        "sampling.tools": isinstance(sampling, dict) and isinstance(sampling.get("tools"), dict),
        "elicitation.form": isinstance(elicitation, dict) and ("form" in elicitation or "url" not in elicitation),
        "elicitation.url": isinstance(elicitation, dict) and isinstance(elicitation.get("url"), dict),
    }
    return frozenset(name for name, is_declared in presence.items() if is_declared)


def _is_response(message: Any) -> bool:
    return isinstance(message, dict) and "method" not in message and ("result" in message or "error" in message)


def _parse_notification(message: dict[str, Any]) -> McpNotification | CancelNotification:
    params = message.get("params")
    request_id = params.get("requestId") if isinstance(params, dict) else None
    if message["method"] == "notifications/cancelled" and is_request_id(request_id):
        return CancelNotification(request_id)
    return McpNotification()


def _parse_request(request_id: RequestId, method: str, params: Any, version: str) -> McpRequest | ErrorResponse:
    if method not in SESSION_METHODS:
        return protocol_error(errors.METHOD_NOT_FOUND, "There is no such method here.", method=method[:MAX_NAME_CHARS])
    meta = params.get("_meta", {}) if isinstance(params, dict) else None
    if not isinstance(params, dict) or not isinstance(meta, dict):
        return invalid_params_error("params and its _meta must be objects.")
    if method == "tools/call" and not (isinstance(params.get("name"), str) and params["name"]):
        return invalid_params_error("params.name must be a string.")
    return parse_parameters(request_id, method, params, meta, version=version)
