"""A request of protocol 2026-07-28, whole and right, to be broken in one place."""

import json
from typing import Any

from mcp.server import request_headers, request_parser
from mcp.server.errors import ErrorResponse
from mcp.server.request_parser import McpNotification, McpRequest

VERSION = "2026-07-28"
META = {
    "io.modelcontextprotocol/protocolVersion": VERSION,
    "io.modelcontextprotocol/clientInfo": {"name": "a test", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
NAMED = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
Headers = list[tuple[bytes, bytes]]


def message(method: str = "tools/call", /, *, id: Any = 1, meta: dict[str, Any] | None = None, **params: Any) -> Any:  # noqa: A002 - the name that JSON-RPC gives it
    if method == "tools/call":
        params = {"name": "todo__create", "arguments": {"title": "milk"}, **params}
    whole = {"_meta": META if meta is None else meta, **params}
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": whole}


def headers(of: Any, **changed: str | None) -> Headers:
    """The headers that belong to a message; `mcp_name="x"` puts another in its place, None takes it away."""
    method = of["method"]
    named = of["params"].get(NAMED.get(method, ""))
    values: dict[str, str | None] = {
        "host": "127.0.0.1:8000",
        "accept": "application/json, text/event-stream",
        "content-type": "application/json",
        "mcp-protocol-version": of["params"].get("_meta", META).get("io.modelcontextprotocol/protocolVersion", VERSION),
        "mcp-method": method,
        "mcp-name": named if isinstance(named, str) else None,
        **{name.replace("_", "-"): value for name, value in changed.items()},
    }
    return [(name.encode(), value.encode("latin-1")) for name, value in values.items() if value is not None]


def body(of: Any) -> bytes:
    return json.dumps(of).encode()


def parsed(given: Headers, raw: bytes) -> McpRequest | ErrorResponse | McpNotification:
    """What the server makes of a whole request of this protocol."""
    loaded = request_parser.load_message(raw)
    if isinstance(loaded, ErrorResponse):
        return loaded
    return request_parser.parse_request(request_headers.read_headers(given), loaded)
