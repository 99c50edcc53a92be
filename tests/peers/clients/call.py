"""Call a server with the client of the current SDK, and print what came of it as JSON.

.venv-peers/bin/python tests/peers/clients/call.py URL [TOKEN] [--list] [--call NAME JSON] [--version DATE] ...
"""

import argparse
from typing import Any

import asked as common
import httpx2
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

from mcp import Client, StdioServerParameters
from mcp.client import session as sessions


async def run(asked: argparse.Namespace, said: dict[str, Any]) -> None:
    mode = asked.version
    if mode in HANDSHAKE_PROTOCOL_VERSIONS:
        # The SDK offers its newest handshake version and has no option for another.
        sessions.LATEST_HANDSHAKE_VERSION, mode = mode, "legacy"
    async with (
        httpx2.AsyncClient(headers=asked.headers, timeout=httpx2.Timeout(10, read=60)) as http,
        Client(target(asked, http), mode=mode, cache=None, read_timeout_seconds=asked.timeout) as client,
    ):
        said["version"] = client.session.protocol_version
        said["capabilities"] = common.plain(client.server_capabilities)
        said["server"] = common.plain(client.server_info) if client.server_info else None
        said |= await common.drive(client, asked, lambda after: {"cursor": after})


def target(asked: argparse.Namespace, http: httpx2.AsyncClient) -> Any:
    if asked.command:
        return StdioServerParameters(command=asked.command[0], args=asked.command[1:])
    if asked.transport == "sse":
        return sse_client(asked.target, headers=asked.headers)
    return streamable_http_client(asked.target, http_client=http, max_sse_event_size=None)


if __name__ == "__main__":
    common.main(run)
