"""Call a server with the client of the SDK's line before, which knows the handshake only; else as `call.py`."""

import argparse
from contextlib import AbstractAsyncContextManager
from typing import Any

import asked as common
from mcp.client.sse import sse_client
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamablehttp_client
from mcp.types import PaginatedRequestParams

from mcp import ClientSession, StdioServerParameters
from mcp.client import session as sessions


async def run(asked: argparse.Namespace, said: dict[str, Any]) -> None:
    if asked.version not in {"auto", "legacy"}:
        sessions.types.LATEST_PROTOCOL_VERSION = asked.version
    async with connection(asked) as streams, ClientSession(streams[0], streams[1]) as session:
        begun = await session.initialize()
        said["version"] = begun.protocolVersion
        said["capabilities"] = common.plain(begun.capabilities)
        said["server"] = common.plain(begun.serverInfo)
        said |= await common.drive(session, asked, lambda after: {"params": PaginatedRequestParams(cursor=after)})


def connection(asked: argparse.Namespace) -> AbstractAsyncContextManager[Any]:
    if asked.command:
        return stdio_client(StdioServerParameters(command=asked.command[0], args=asked.command[1:]))
    if asked.transport == "sse":
        return sse_client(asked.target, headers=asked.headers)
    return streamablehttp_client(asked.target, headers=asked.headers)


if __name__ == "__main__":
    common.main(run)
