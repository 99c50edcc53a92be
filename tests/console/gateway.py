"""A server that speaks the real protocol, and what the console's tests do with it."""

from collections.abc import Iterator
from typing import Any

import pytest

from common import egress
from mcp import definitions, health, servers, threads, upstream
from mcp.clerk.desk import desk
from mcp.models import Server, Tool
from nhi import actors
from nhi.models import User
from tests.mcp import peer
from tests.mcp.peer import Peer


def person(name: str) -> Any:
    return actors.person(User.objects.get(username=name))


def add(one: Peer, *, name: str = "todo", by: str = "mara", **given: Any) -> Server:
    described = {"transport": "http", "base_url": one.url, **given}
    return servers.create(actor=person(by), name=name, owner=User.objects.get(username=by), given=described)


def approve(tool: Tool, *, by: str = "mara") -> Tool:
    tool.refresh_from_db()
    assert tool.current is not None
    return definitions.approve(actor=person(by), tool=tool, definition_hash=tool.current.hash, reason="Looked at it")


def tool_of(server: Server, name: str = "echo") -> Tool:
    return Tool.objects.select_related("identity", "server", "current", "approved").get(server=server, name=name)


def change(one: Peer, server: Server, **said: Any) -> Tool:
    """The server says something else of its first tool, and is asked again."""
    one.tools[0] = {**one.tools[0], **said}
    health.refresh(server=Server.objects.get(pk=server.pk))
    return tool_of(server, one.tools[0]["name"])


@pytest.fixture
def upstreams(settings: Any) -> Iterator[Peer]:
    """A server with two tools; what this process keeps of it is ended before its database is."""
    with peer.serving("echo", "count") as one:
        settings.EGRESS_ALLOW = frozenset({f"127.0.0.1:{one.port}"})
        yield one
        desk.stop()
        desk.restart()
        threads.loop.stop(_let_go)


async def _let_go() -> None:
    await upstream.close_all()
    await egress.close()
