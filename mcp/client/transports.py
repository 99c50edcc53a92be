"""The client's side of MCP: what talks to other people's servers, and the only thing here that does.

Each transport keeps its connections by event loop; nothing of a caller's is ever sent along.
"""

from typing import Any

from mcp.client.http_transport import HttpTransport
from mcp.client.stdio_transport import StdioTransport
from mcp.client.types import Handshake, OnChange, OnProgress, ServerTarget, UpstreamTransport
from mcp.protocol.errors import UpstreamFault

__all__ = [
    "TRANSPORTS", "Handshake", "OnChange", "OnProgress", "ServerTarget", "UpstreamTransport", "call_tool", "close_all",
    "handshake", "list_tools", "watch_changes",
]  # fmt: skip

_http_transport = HttpTransport()
TRANSPORTS: dict[str, UpstreamTransport] = {"http": _http_transport, "sse": _http_transport, "stdio": StdioTransport()}


async def handshake(target: ServerTarget, *, timeout: float) -> Handshake:
    """Ask a server what it is. Its era is found out anew each time."""
    return await _transport(target).handshake(target, timeout=timeout)


async def list_tools(target: ServerTarget, *, timeout: float) -> list[dict[str, Any]]:
    """A server's tools as it defines them, all pages."""
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
    """Call a tool once and give its result as it came. Cancelling the task that waits cancels the call upstream."""
    return await _transport(target).call_tool(
        target, name, arguments, timeout=timeout, meta=meta, on_progress=on_progress, input_schema=input_schema
    )


async def watch_changes(target: ServerTarget, on_change: OnChange, *, seconds: float) -> None:
    """Be told each time the tools of a server over HTTP change, for so long or until it ends the stream.

    Many servers have no such stream, and say so at once by a fault. What changes between two watches is told by
    neither, so this saves no listing from time to time; it makes the news come sooner."""
    await _http_transport.watch(target, on_change, seconds=seconds)


async def close_all() -> None:
    """End the running loop's connections; every loop that called a server ends with this."""
    for transport in dict.fromkeys(TRANSPORTS.values()):
        await transport.close()


def _transport(target: ServerTarget) -> UpstreamTransport:
    found = TRANSPORTS.get(target.transport)
    if found is None:
        raise UpstreamFault("not_running", f"Nothing here reaches servers over {target.transport}.", sent=False)
    return found
