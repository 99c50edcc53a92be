"""A server written with the official SDK, run by the Python of `make peers`; either line of it, told apart below.

    python peer.py stdio|http|sse [--name NAME] [--notes FILE] [--control FILE] [--requests FILE] ...

Over HTTP it prints one line when it is ready: `{"port": N, "path": "/mcp"}`.
"""

import argparse
import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from listening import serve
from tools import offer

try:
    from mcp.server.mcpserver import Context, MCPServer
    from mcp.server.mcpserver.exceptions import ToolError

    NEW = True
except ModuleNotFoundError:
    from mcp.server.fastmcp import Context
    from mcp.server.fastmcp import FastMCP as MCPServer
    from mcp.server.fastmcp.exceptions import ToolError

    NEW = False

PATHS = {"http": "/mcp", "sse": "/sse"}


class Peer(MCPServer):
    """A server whose tools say what a control file tells them to say, from one listing to the next."""

    control: Path | None = None

    async def list_tools(self) -> list[Any]:
        tools = await super().list_tools()
        if self.control is None or not self.control.exists():
            return tools
        changes = json.loads(self.control.read_text())
        # Null withdraws a tool; anything else replaces fields of its definition, as they are named on the wire.
        kept = [tool for tool in tools if changes.get(tool.name, {}) is not None]
        return [changed(tool, changes.get(tool.name, {})) for tool in kept]


def changed(tool: Any, fields: dict[str, Any]) -> Any:
    return type(tool).model_validate({**tool.model_dump(by_alias=True, exclude_none=True), **fields})


def main() -> None:
    options = parser().parse_args()
    server = Peer(options.name, instructions="A server for tests.", log_level="WARNING")
    server.control = options.control
    offer(server, Context, ToolError, options.notes)
    if options.noise and options.transport == "stdio":
        print("This is no JSON.", flush=True)
        print(f"A line of log.\n{'x' * 200_000}", file=sys.stderr, flush=True)
    if options.transport == "stdio":
        server.run("stdio")
    else:
        asyncio.run(serve(application(server, options), PATHS[options.transport], options.port, options.requests))


def application(server: Peer, options: argparse.Namespace) -> Any:
    if options.transport == "sse":
        return server.sse_app()
    choices = {"json_response": options.json, "stateless_http": options.stateless}
    if NEW:
        return server.streamable_http_app(**choices)
    for name, value in choices.items():
        setattr(server.settings, name, value)
    return server.streamable_http_app()


def parser() -> argparse.ArgumentParser:
    known = argparse.ArgumentParser()
    known.add_argument("transport", choices=["stdio", "http", "sse"])
    known.add_argument("--name", default="peer")
    known.add_argument("--port", type=int, default=0)
    known.add_argument("--notes", type=Path, help="where tools note what happened to them, a JSON object a line")
    known.add_argument("--control", type=Path, help="a JSON object: tool -> fields of its definition to change")
    known.add_argument("--requests", type=Path, help="where each HTTP request's head is written, a line each")
    known.add_argument("--json", action="store_true", help="answer with JSON, not an event stream")
    known.add_argument("--stateless", action="store_true", help="no sessions in the handshake era")
    known.add_argument("--noise", action="store_true", help="stdio: lines on stdout and stderr that are no messages")
    return known


if __name__ == "__main__":
    main()
