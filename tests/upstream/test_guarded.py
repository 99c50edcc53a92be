"""Servers are reached through the one guarded client, and through it alone."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from uuid import uuid4

import pytest
from django.conf import LazySettings

from common import egress
from mcp.client import transports
from mcp.client.transports import ServerTarget
from mcp.protocol.upstream_errors import UpstreamFault
from tests.upstream.client import run
from tests.upstream.servers import LegacyServer, ModernServer, Server, SseServer, serving

pytestmark = pytest.mark.capability("MCP-03")


@asynccontextmanager
async def running(server: Server) -> AsyncIterator[ServerTarget]:
    async with serving(server.app()) as url:
        try:
            yield ServerTarget(uuid4(), "tools", 1, "sse" if isinstance(server, SseServer) else "http", f"{url}/mcp")
        finally:
            await transports.close_all()
            await egress.close_session()


def allow(settings: LazySettings, target: ServerTarget) -> None:
    settings.EGRESS_ALLOW = frozenset({target.base_url.removeprefix("http://").partition("/")[0]})


@pytest.mark.parametrize("kind", [ModernServer, LegacyServer, SseServer])
def test_an_allowed_server_is_met_listed_and_called(kind: type[Server], settings: LazySettings) -> None:
    async def test() -> None:
        async with running(kind()) as target:
            allow(settings, target)
            assert (await transports.handshake(target, timeout=5)).era
            assert len(await transports.list_tools(target, timeout=5)) == 2
            assert (await transports.call_tool(target, "echo", {}, timeout=5))["isError"] is False

    run(test)


@pytest.mark.parametrize("kind", [ModernServer, LegacyServer, SseServer])
def test_a_server_at_a_private_address_gets_nothing(kind: type[Server]) -> None:
    async def test() -> None:
        server = kind()
        async with running(server) as target:
            with pytest.raises(UpstreamFault) as caught:
                await transports.call_tool(target, "echo", {}, timeout=5)
            assert (caught.value.code, caught.value.sent) == ("unreachable", False)
            assert caught.value.detail.endswith(".")
            assert server.got == []

    run(test)


def test_each_loop_has_connections_of_its_own(settings: LazySettings) -> None:
    """A loop that ended took its sessions with it; the next opens others, for the same server."""
    server = LegacyServer()
    targets: list[ServerTarget] = []

    async def serve() -> None:
        async with running(server) as target:
            allow(settings, target)
            targets.append(target)
            await transports.call_tool(target, "echo", {}, timeout=5)
            await asyncio.to_thread(lambda: run(elsewhere))

    async def elsewhere() -> None:
        try:
            await transports.call_tool(targets[0], "echo", {}, timeout=5)
            assert server.opened == 2
        finally:
            await transports.close_all()
            await egress.close_session()

    run(serve)


def test_a_transport_that_is_not_here_is_said_to_be_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(transports.TRANSPORTS, "stdio", raising=False)

    async def test() -> None:
        with pytest.raises(UpstreamFault) as caught:
            await transports.list_tools(ServerTarget(uuid4(), "tools", 1, "stdio"), timeout=1)
        assert (caught.value.code, caught.value.sent) == ("not_running", False)

    run(test)
