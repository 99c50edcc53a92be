"""A child process neither uses nor closes what its parent opened."""

import asyncio
import gc
import os
import warnings
from collections.abc import Callable

import pytest
from aiohttp import web
from pytest_django import Settings

from common import egress
from common.egress import client
from tests.egress.far_side import NameServers, Wire, run, serving

pytestmark = pytest.mark.capability("OPS-01")


async def whose(request: web.Request) -> web.Response:
    assert request.transport is not None
    return web.Response(text=str(request.transport.get_extra_info("peername")[1]))


async def connection_used(url: str) -> str:
    async with egress.open_session().get(url) as response:
        return (await egress.read_limited_body(response, 100)).decode()


async def asks_name_servers() -> bool:
    """Whether they were heard: without an answer nothing would be refused."""
    try:
        await egress.check_url("https://tools.example/")
    except egress.EgressBlocked:
        return True
    return False


def in_a_child(work: Callable[[], bool]) -> int:
    """Do `work` in a fork of this process; its exit code is 0 when that is true."""
    # What earlier tests left, gRPC's servers among it, waits in a child for threads that it has not.
    gc.collect()
    with warnings.catch_warnings():
        # As in a process that is no test and lives on: what is let go of goes, and no warning about it keeps it.
        warnings.simplefilter("ignore")
        child = os.fork()
    if child == 0:
        status = 1
        try:
            status = 0 if work() else 2
            gc.collect()
        finally:
            os._exit(status)
    return child


async def ended(child: int) -> int:
    _, status = await asyncio.wait_for(asyncio.to_thread(os.waitpid, child, 0), 20)
    return os.waitstatus_to_exitcode(status)


def test_a_fork_starts_afresh_and_leaves_the_parents_connections_alone(
    settings: Settings, name_servers: NameServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A child may take longer on a busy machine than an idle connection is kept.
    monkeypatch.setattr(client, "KEEPALIVE_SECONDS", 60)
    name_servers.answers["tools.example"] = [["10.0.0.1"]]

    async def main(wire: Wire) -> None:
        async with serving(whose) as port:
            url = f"http://127.0.0.1:{port}/"
            settings.EGRESS_ALLOW = frozenset({f"127.0.0.1:{port}"})
            before = await connection_used(url)
            assert await asks_name_servers()

            async def of_the_child() -> bool:
                other = await connection_used(url)
                heard = await asks_name_servers()
                await egress.close_session()
                return heard and other != before

            assert await ended(in_a_child(lambda: asyncio.run(of_the_child()))) == 0
            assert await asyncio.wait_for(connection_used(url), 10) == before

    run(main)


def test_a_fork_that_goes_on_with_its_parents_loop_has_another_session() -> None:
    """A worker process that keeps one loop for all its work may have got it from before the fork."""

    async def mine() -> int:
        return id(egress.open_session())

    with asyncio.Runner() as runner:
        before = runner.run(mine())
        child = in_a_child(lambda: runner.get_loop().run_until_complete(mine()) != before)
        _, status = os.waitpid(child, 0)
        runner.run(egress.close_session())
    assert os.waitstatus_to_exitcode(status) == 0
