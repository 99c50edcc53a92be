"""Parses MCP requests of protocol 2026-07-28. The first check that fails determines the error."""

from dataclasses import dataclass, field, replace
from typing import Any, TypeGuard

from common import strict_json
from mcp.server import errors
from mcp.server.errors import ErrorResponse, RequestId, http_error, protocol_error
from mcp.server.request_headers import RequestHeaders

LATEST_VERSION = "2026-07-28"
SUPPORTED_VERSIONS = (LATEST_VERSION,)
MAX_BODY_BYTES = 4 * 1024 * 1024
MAX_ID_CHARS, MAX_NAME_CHARS = 1000, 300
INTEGER_RANGE = range(-(2**63), 2**63)
PROTOCOL_VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
CLIENT_CAPABILITIES_KEY = "io.modelcontextprotocol/clientCapabilities"
#: The key under which clients name the conversation of a call. The specification defines no such key.
CONTEXT_KEY = "gatehouse/context"
#: Its fields and their maximum lengths, for MCP and REST.
CONTEXT_FIELDS = {"conversation_id": 200, "session_id": 200, "task_id": 200, "user_instruction": 4000}
METHODS = frozenset({"server/discover", "tools/list", "tools/call"})
#: The parameter that `Mcp-Name` repeats, by method. Two of the methods are not served; their header is checked first.
NAME_PARAMETERS = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}


@dataclass(frozen=True, slots=True)
class McpRequest:
    """A valid MCP request. Name, arguments, progress token and context belong to calls, the cursor to listings."""

    id: RequestId
    method: str
    version: str
    name: str = ""
    arguments: dict[str, Any] = field(default_factory=dict)
    cursor: str | None = None
    progress_token: RequestId | None = None
    context: dict[str, str] = field(default_factory=dict)
    #: Names of the capabilities that the client declares.
    capabilities: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class McpNotification:
    """A notification, accepted and ignored.

    The protocol defines none that a server acts on, and a request id in a notification proves no ownership."""


def load_message(body: bytes) -> Any:
    """Return the JSON value of a body. Return an `ErrorResponse` if the body is too long or not strict JSON."""
    if len(body) > MAX_BODY_BYTES:
        return http_error(413, f"The body is longer than {MAX_BODY_BYTES} bytes; that is the most.")
    try:
        return strict_json.loads(body)
    except strict_json.StrictJsonError as error:
        return protocol_error(errors.PARSE_ERROR, str(error))


def parse_request(headers: RequestHeaders, message: Any) -> McpRequest | ErrorResponse | McpNotification:
    """Parse a JSON value as a request. Return an error response if it is invalid."""
    problem = find_envelope_problem(message)
    if problem:
        return protocol_error(errors.INVALID_REQUEST, problem)
    if "id" not in message:
        return _parse_notification(headers)
    request = _parse_method(headers, message["id"], message["method"], message.get("params"))
    return request.with_id(message["id"]) if isinstance(request, ErrorResponse) else request


def find_envelope_problem(message: Any) -> str:
    """Return why the value is no request and no notification; empty if it is one."""
    if not isinstance(message, dict):
        return "Send one JSON-RPC object; arrays of them are not served."
    if "id" in message and not is_request_id(message["id"]):
        return "The id of a request is a string or a whole number."
    if message.get("jsonrpc") != "2.0" or not isinstance(message.get("method"), str):
        return 'A request has "jsonrpc": "2.0" and a method; answers are not taken here.'
    return ""


def is_request_id(value: Any) -> TypeGuard[RequestId]:
    """Whether the value is a string or a 64-bit integer. Booleans are no integers."""
    if isinstance(value, str):
        return len(value) <= MAX_ID_CHARS
    return isinstance(value, int) and not isinstance(value, bool) and value in INTEGER_RANGE


def _parse_notification(headers: RequestHeaders) -> ErrorResponse | McpNotification:
    version = headers.get("mcp-protocol-version")
    return McpNotification() if version in SUPPORTED_VERSIONS else unsupported_version_error(version)


def _parse_method(
    headers: RequestHeaders, request_id: RequestId, method: str, params: Any
) -> McpRequest | ErrorResponse:
    meta: Any = params.get("_meta") if isinstance(params, dict) else None
    error_response = _check_metadata(params, meta) or _check_routing_headers(headers, method, params)
    if error_response is not None:
        return error_response
    version = meta[PROTOCOL_VERSION_KEY]
    if version not in SUPPORTED_VERSIONS:
        return unsupported_version_error(version)
    if method not in METHODS:
        return protocol_error(errors.METHOD_NOT_FOUND, "There is no such method here.", method=method[:MAX_NAME_CHARS])
    capabilities = frozenset(meta[CLIENT_CAPABILITIES_KEY])
    return parse_parameters(request_id, method, params, meta, version=version, capabilities=capabilities)


def unsupported_version_error(requested: str) -> ErrorResponse:
    message = f"This server speaks {', '.join(SUPPORTED_VERSIONS)} of the protocol."
    return protocol_error(
        errors.UNSUPPORTED_VERSION, message, supported=list(SUPPORTED_VERSIONS), requested=requested[:64]
    )


def _check_metadata(params: Any, meta: Any) -> ErrorResponse | None:
    if not isinstance(params, dict) or not isinstance(meta, dict):
        return invalid_params_error("A request has params with a _meta object.")
    if not isinstance(meta.get(PROTOCOL_VERSION_KEY), str):
        return invalid_params_error(f"params._meta must hold {PROTOCOL_VERSION_KEY}, a string.")
    if not isinstance(meta.get(CLIENT_CAPABILITIES_KEY), dict):
        return invalid_params_error(f"params._meta must hold {CLIENT_CAPABILITIES_KEY}, an object.")
    return None


def _check_routing_headers(headers: RequestHeaders, method: str, params: dict[str, Any]) -> ErrorResponse | None:
    """Check that the routing headers occur once and equal the body: proxies route by the headers."""
    if not headers.matches("mcp-protocol-version", params["_meta"][PROTOCOL_VERSION_KEY]):
        return _header_mismatch_error("MCP-Protocol-Version", f"_meta's {PROTOCOL_VERSION_KEY}")
    if not headers.matches("mcp-method", method):
        return _header_mismatch_error("Mcp-Method", "method")
    key = NAME_PARAMETERS.get(method)
    if key is None:
        return _header_mismatch_error("Mcp-Name", "nothing") if "mcp-name" in headers.repeated else None
    name = params.get(key)
    if not isinstance(name, str) or not name:
        return invalid_params_error(f"params.{key} must be a string.")
    return None if headers.matches("mcp-name", name) else _header_mismatch_error("Mcp-Name", f"params.{key}")


def parse_parameters(
    request_id: RequestId,
    method: str,
    params: dict[str, Any],
    meta: dict[str, Any],
    *,
    version: str,
    capabilities: frozenset[str] = frozenset(),
) -> McpRequest | ErrorResponse:
    """Parse the parameters of a discovery, list or call request. The name of a call must have been checked before."""
    token = meta.get("progressToken")
    if token is not None and not is_request_id(token):
        return invalid_params_error("A progressToken is a string or a whole number.")
    if method == "tools/call":
        call = McpRequest(request_id, method, version, params["name"], progress_token=token, capabilities=capabilities)
        return _parse_arguments(call, params, meta)
    cursor = params.get("cursor")
    if cursor is not None and not isinstance(cursor, str):
        return invalid_params_error("A cursor is a string that a list before gave.")
    return McpRequest(request_id, method, version, cursor=cursor)


def _parse_arguments(call: McpRequest, params: dict[str, Any], meta: dict[str, Any]) -> McpRequest | ErrorResponse:
    """Return the call with its arguments and its context."""
    arguments, context = params.get("arguments", {}), meta.get(CONTEXT_KEY, {})
    if not isinstance(arguments, dict):
        return invalid_params_error("params.arguments must be an object.")
    if "inputResponses" in params or "requestState" in params:
        return invalid_params_error("This server asks for no further input, so there is no round to continue.")
    if not _is_valid_context(context):
        limits = ", ".join(f"{name} (at most {max_chars})" for name, max_chars in CONTEXT_FIELDS.items())
        return invalid_params_error(f"_meta's {CONTEXT_KEY} is an object of strings: {limits}.")
    return replace(call, arguments=arguments, context=context)


def _is_valid_context(context: Any) -> bool:
    return isinstance(context, dict) and all(
        isinstance(value, str) and len(value) <= CONTEXT_FIELDS.get(name, -1) for name, value in context.items()
    )


def invalid_params_error(message: str) -> ErrorResponse:
    return protocol_error(errors.INVALID_PARAMS, message)


def _header_mismatch_error(header: str, field_name: str) -> ErrorResponse:
    message = f"The header {header} must be there once and be the same as {field_name} in the body."
    return protocol_error(errors.HEADER_MISMATCH, message, header=header)
