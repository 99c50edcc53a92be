"""A world made in this process's database, and calls through the gateway as a door would make them."""

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar
from uuid import UUID

from django.db import connection

from common import egress
from common.ids import uuid7
from mcp.client import transports
from mcp.gateway import pipeline
from mcp.gateway.types import CallContext, CallRequest, CallResult, split_tool_name
from mcp.models import Server, Tool
from nhi.credentials import tokens
from nhi.models import InvocationLog
from tests.mcp import world
from tests.mcp.world import Wanted

T = TypeVar("T")
Json = dict[str, Any]


@dataclass
class Scene:
    made: Json
    name: str = "peer"
    context: CallContext = field(default_factory=CallContext)

    @property
    def server(self) -> Server:
        return Server.objects.get(name=self.name)

    def tool(self, name: str = "echo") -> Tool:
        return Tool.objects.select_related("server", "identity", "current", "approved").get(
            server__name=self.name, name=name
        )

    def ask(self, tool: str = "echo", arguments: Json | None = None, *, agent: str = "bot", **more: Any) -> CallRequest:
        given = {"source": "127.0.0.1", "request_id": uuid7(), "context": self.context, **more}
        server, name = split_tool_name(tool if "__" in tool else f"{self.name}__{tool}")
        if "server" in given:
            server, name = given.pop("server"), tool
        return CallRequest(self.token(agent), server, name, arguments or {}, **given)

    def token(self, agent: str) -> tokens.ParsedBearerToken:
        """Of an agent of this world, or of who holds this token."""
        return tokens.parse_known(self.made["tokens"].get(agent, agent))

    def call(self, tool: str = "echo", arguments: Json | None = None, *, agent: str = "bot", **more: Any) -> CallResult:
        return run(pipeline.call_tool(self.ask(tool, arguments, agent=agent, **more)))


def scene(url: str = "", *, server: str = "peer", **wanted: Any) -> Scene:
    return Scene(world.build(Wanted(url=url, server=server, **wanted)), server)


def run(work: Coroutine[Any, Any, T]) -> T:
    """To its end, in a loop that then lets go of what it has open."""
    return asyncio.run(_whole(work))


async def _whole(work: Coroutine[Any, Any, T]) -> T:
    try:
        return await work
    finally:
        await transports.close_all()
        await egress.close_session()


async def left_alone(ask: CallRequest, after: asyncio.Event | None = None, *, seconds: float = 0.0) -> None:
    """A caller that goes away while its call is under way."""
    task = asyncio.create_task(pipeline.call_tool(ask))
    if after is not None:
        await asyncio.wait_for(after.wait(), 10)
    await asyncio.sleep(seconds)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


def row_of(call_id: UUID | None) -> InvocationLog:
    """The one row of a call."""
    return InvocationLog.objects.get(pk=call_id)


async def until(fact: Any, what: str, seconds: float = 10) -> None:
    """Wait for a fact of the database or of a peer, without holding up the loop."""
    deadline = asyncio.get_running_loop().time() + seconds
    while not await asyncio.to_thread(fact):
        assert asyncio.get_running_loop().time() < deadline, f"not {what}"
        await asyncio.sleep(0.02)


def do(statements: tuple[str, ...]) -> None:
    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
