"""A transport of the test's own loop, ended with it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any
from uuid import UUID, uuid4

import aiohttp

from mcp.client.http_transport import HttpTransport
from mcp.client.types import ServerTarget
from tests.upstream.servers import Server, serving

SECRET = "Bearer of-the-server-alone-42"


class Upstream:
    """A server that is running, and the way to it."""

    def __init__(self, transport: HttpTransport, url: str) -> None:
        self.transport = transport
        self.url = url
        self.server_id: UUID = uuid4()

    def target(self, **changes: Any) -> ServerTarget:
        found: dict[str, Any] = {
            "server_id": self.server_id, "name": "tools", "revision": 1, "transport": "http",
            "base_url": self.url, "headers": (("Authorization", SECRET),), "handshake_timeout": 5,
        }  # fmt: skip
        return ServerTarget(**found | changes)

    async def call(self, name: str = "echo", arguments: Any = None, *, timeout: float = 5, **options: Any) -> Any:
        of_target = {key: options.pop(key) for key in list(options) if key in ServerTarget.__dataclass_fields__}
        return await self.transport.call_tool(
            self.target(**of_target), name, {} if arguments is None else arguments, timeout=timeout, **options
        )


@contextlib.asynccontextmanager
async def to(url: str) -> AsyncIterator[Upstream]:
    async with aiohttp.ClientSession() as session:
        transport = HttpTransport(session=lambda: session)
        try:
            yield Upstream(transport, url)
        finally:
            await transport.close()


@contextlib.asynccontextmanager
async def running(server: Server) -> AsyncIterator[Upstream]:
    async with serving(server.app()) as url:
        server.url = f"{url}/mcp"
        async with to(server.url) as upstream:
            yield upstream


def run(test: Callable[[], Awaitable[None]]) -> None:
    """Run it on a loop of its own, which must end with nothing left over."""

    async def watched() -> None:
        async with asyncio.timeout(30):
            await test()
        left = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        assert not left, left

    asyncio.run(watched())
