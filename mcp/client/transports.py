"""Calls servers over the transport of each target: handshake, list tools, call a tool, watch for changes.

Within `mcp`, only this package and `stdio_host` talk to upstream servers. Each transport pools its connections by event
loop. Credentials and headers of callers are never sent upstream.
"""

from typing import Any

from mcp.client.http_transport import HttpTransport
from mcp.client.stdio_transport import StdioTransport
from mcp.client.types import Handshake, OnChange, OnProgress, ServerTarget, UpstreamTransport
from mcp.protocol.upstream_errors import UpstreamFault

__all__ = [
    "TRANSPORTS", "Handshake", "OnChange", "OnProgress", "ServerTarget", "UpstreamTransport", "call_tool", "close_all",
    "handshake", "list_tools", "watch_changes",
]  # fmt: skip

_http_transport = HttpTransport()
TRANSPORTS: dict[str, UpstreamTransport] = {"http": _http_transport, "sse": _http_transport, "stdio": StdioTransport()}


async def handshake(target: ServerTarget, *, timeout: float) -> Handshake:
    """Query a server for its identity and capabilities. Its era is detected on every handshake."""
    return await _transport(target).handshake(target, timeout=timeout)


async def list_tools(target: ServerTarget, *, timeout: float) -> list[dict[str, Any]]:
    """List all tools of a server as the server defines them, from all pages."""
    return await _transport(target).list_tools(target, timeout=timeout)


async def call_tool(
    target: ServerTarget,
    name: str,
    arguments: dict[str, Any],
    *,
    timeout: float,
    meta: dict[str, Any] | None = None,
    on_progress: OnProgress | None = None,
    input_schema: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Call a tool once and return its unchanged result. Cancelling the task cancels the call upstream."""
    return await _transport(target).call_tool(
        target, name, arguments, timeout=timeout, meta=meta, on_progress=on_progress, input_schema=input_schema
    )


async def watch_changes(target: ServerTarget, on_change: OnChange, *, seconds: float) -> None:
    """Call `on_change` when the tools of an HTTP server change, for `seconds` or until the server ends the stream.

    Many servers have no such stream and answer with a fault at once. Changes between two calls of this function are not
    reported, so tools must also be listed periodically; watching only detects changes sooner."""
    await _http_transport.watch(target, on_change, seconds=seconds)


async def close_all() -> None:
    """Close the connections of the running event loop. Each loop that called a server must await this at its end."""
    for transport in dict.fromkeys(TRANSPORTS.values()):
        await transport.close()


def _transport(target: ServerTarget) -> UpstreamTransport:
    transport = TRANSPORTS.get(target.transport)
    if transport is None:
        raise UpstreamFault("not_running", f"Nothing here reaches servers over {target.transport}.", sent=False)
    return transport
