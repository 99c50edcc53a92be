"""Messages of protocol 2026-07-28: no handshake and no session; each request carries its own metadata."""

from collections.abc import Iterable
from typing import Any

from mcp_types import (
    CLIENT_CAPABILITIES_META_KEY,
    CLIENT_INFO_META_KEY,
    PROTOCOL_VERSION_META_KEY,
    SERVER_INFO_META_KEY,
)
from mcp_types.jsonrpc import HEADER_MISMATCH, MISSING_REQUIRED_CLIENT_CAPABILITY, UNSUPPORTED_PROTOCOL_VERSION
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, LATEST_MODERN_VERSION, MODERN_PROTOCOL_VERSIONS

from common.version import VERSION
from mcp.protocol.headers import encode_value
from mcp.protocol.jsonrpc import Message, RequestId, request
from mcp.protocol.upstream_errors import UpstreamError, UpstreamFault

LATEST = LATEST_MODERN_VERSION
CLIENT_INFO = {"name": "gatehouse", "version": VERSION}
ACCEPT = "application/json, text/event-stream"
#: The parameter that the header `Mcp-Name` repeats, by method.
NAME_PARAMETERS = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
#: Error codes that only servers of this revision use.
OWN_CODES = frozenset({HEADER_MISMATCH, MISSING_REQUIRED_CLIENT_CAPABILITY, UNSUPPORTED_PROTOCOL_VERSION})


def build_request(request_id: RequestId, method: str, params: Message, *, version: str, meta: Message) -> Message:
    """Build a request with its metadata. It declares no capability, so the server may not request any input."""
    request_meta = {
        **meta,
        PROTOCOL_VERSION_META_KEY: version,
        CLIENT_INFO_META_KEY: CLIENT_INFO,
        CLIENT_CAPABILITIES_META_KEY: {},
    }
    return request(request_id, method, {**params, "_meta": request_meta})


def build_headers(method: str, params: Message, *, version: str) -> dict[str, str]:
    """Build the headers that repeat parts of the body, so that proxies can route by them."""
    headers = {"Accept": ACCEPT, "MCP-Protocol-Version": version, "Mcp-Method": method}
    name_parameter = NAME_PARAMETERS.get(method)
    if name_parameter is not None:
        headers["Mcp-Name"] = encode_value(str(params[name_parameter]))
    return headers


def require_complete(result: Message) -> Message:
    """Return the result if it is complete. Servers of earlier revisions send no `resultType`."""
    kind = result.get("resultType", "complete")
    if kind == "complete":
        return result
    if kind == "input_required":
        # The server works correctly for callers that can answer, so this does not count as a failure of the server.
        detail = "The server asks for more input before it answers (input_required), which is not passed on."
        raise UpstreamFault("unsupported", detail, sent=True)
    detail = f"The server answered with a result of a kind that is not known ({str(kind)[:40]!r})."
    raise UpstreamFault("protocol", detail, sent=True)


def mutual_version(supported: Any) -> str:
    """Return the newest modern version in a server's list of supported versions, or an empty string."""
    names = _version_names(supported)
    return next((version for version in reversed(MODERN_PROTOCOL_VERSIONS) if version in names), "")


def includes_handshake_version(supported: Any) -> bool:
    return not _version_names(supported).isdisjoint(HANDSHAKE_PROTOCOL_VERSIONS)


def read_supported_versions(error: UpstreamError) -> Any:
    """Return the versions listed in an unsupported-version error, or None if it lists none."""
    return error.data.get("supported") if isinstance(error.data, dict) else None


def read_server_info(result: Message) -> Message:
    meta = result.get("_meta")
    server_info = meta.get(SERVER_INFO_META_KEY) if isinstance(meta, dict) else None
    return server_info if isinstance(server_info, dict) else {}


def _version_names(supported: Any) -> set[str]:
    return {name for name in supported if isinstance(name, str)} if isinstance(supported, Iterable) else set()
