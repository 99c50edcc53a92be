"""A child process neither uses nor closes what its parent opened."""

import asyncio
import os

import pytest
from aiohttp import web
from pytest_django import Settings

from common import egress
from tests.egress.far_side import Wire, run, serving

pytestmark = pytest.mark.capability("OPS-01")


async def whose(request: web.Request) -> web.Response:
    assert request.transport is not None
    return web.Response(text=str(request.transport.get_extra_info("peername")[1]))


async def connection_used(url: str) -> str:
    async with egress.session().get(url) as response:
        return (await egress.read(response, 100)).decode()


def in_a_child(url: str, parents: str) -> int:
    """Its process id. It ends with 0 when it called over a connection of its own, and closed only that."""

    async def main() -> bool:
        await egress.check("https://nowhere.invalid/")
        other = await connection_used(url)
        await egress.close()
        return other != parents

    child = os.fork()
    if child == 0:
        status = 1
        try:
            status = 0 if asyncio.run(main()) else 2
        finally:
            os._exit(status)
    return child


def test_a_fork_starts_afresh_and_leaves_the_parents_connections_alone(settings: Settings) -> None:
    async def main(wire: Wire) -> None:
        async with serving(whose) as port:
            url = f"http://127.0.0.1:{port}/"
            settings.EGRESS_ALLOW = frozenset({f"127.0.0.1:{port}"})
            before = await connection_used(url)
            _, status = await asyncio.wait_for(asyncio.to_thread(os.waitpid, in_a_child(url, before), 0), 20)
            assert os.waitstatus_to_exitcode(status) == 0
            assert await connection_used(url) == before

    run(main)
