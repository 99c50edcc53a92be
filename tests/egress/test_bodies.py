"""How much is read of what comes back, and for how long."""

import asyncio
import gzip
import time
import tracemalloc
from collections.abc import Awaitable, Callable

import aiohttp
import pytest
from aiohttp import web
from pytest_django import Settings

from common import egress
from common.errors import PayloadTooLarge
from tests.egress.far_side import Wire, run, serving

pytestmark = pytest.mark.capability("OPS-01")

LIMIT = 100_000
MEGABYTE = 1024 * 1024


def answer(
    body: bytes, *, chunked: bool = False, encoding: str = ""
) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def handler(request: web.Request) -> web.Response:
        response = web.Response(body=body, headers={"Content-Encoding": encoding} if encoding else {})
        if chunked:
            response.enable_chunked_encoding()
        return response

    return handler


def fetched(
    settings: Settings,
    handler: Callable[[web.Request], Awaitable[web.StreamResponse]],
    *,
    limit: int = LIMIT,
    total: float = 10,
) -> bytes:
    async def main(wire: Wire) -> bytes:
        async with serving(handler) as port:
            settings.EGRESS_ALLOW = frozenset({f"127.0.0.1:{port}"})
            timeout = aiohttp.ClientTimeout(total=total)
            async with egress.open_session().get(f"http://127.0.0.1:{port}/", timeout=timeout) as response:
                return await egress.read_limited_body(response, limit)

    return run(main)


@pytest.mark.parametrize("chunked", [True, False])
@pytest.mark.parametrize("size", [0, 1, LIMIT - 1, LIMIT])
def test_a_body_up_to_the_limit_is_read_whole(size: int, chunked: bool, settings: Settings) -> None:
    assert fetched(settings, answer(b"x" * size, chunked=chunked)) == b"x" * size


@pytest.mark.parametrize("chunked", [True, False])
@pytest.mark.parametrize("size", [LIMIT + 1, 5 * MEGABYTE])
def test_one_byte_more_is_too_much(size: int, chunked: bool, settings: Settings) -> None:
    with pytest.raises(PayloadTooLarge):
        fetched(settings, answer(b"x" * size, chunked=chunked))


def test_a_packed_body_counts_as_unpacked(settings: Settings) -> None:
    whole = gzip.compress(b"x" * LIMIT)
    assert fetched(settings, answer(whole, encoding="gzip")) == b"x" * LIMIT
    with pytest.raises(PayloadTooLarge):
        fetched(settings, answer(gzip.compress(b"x" * (LIMIT + 1)), encoding="gzip"))


@pytest.mark.parametrize("chunked", [True, False])
def test_a_bomb_is_not_unpacked(chunked: bool, settings: Settings) -> None:
    bomb = gzip.compress(bytes(200 * MEGABYTE), compresslevel=9)
    tracemalloc.start()
    try:
        with pytest.raises(PayloadTooLarge):
            fetched(settings, answer(bomb, chunked=chunked, encoding="gzip"))
        assert tracemalloc.get_traced_memory()[1] < 4 * MEGABYTE
    finally:
        tracemalloc.stop()


def test_a_body_that_trickles_ends_with_the_callers_patience(settings: Settings) -> None:
    async def trickle(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(b"x")
            await asyncio.sleep(0.02)

    started = time.monotonic()
    with pytest.raises(TimeoutError):
        fetched(settings, trickle, total=0.3)
    assert time.monotonic() - started < 2


def test_headers_that_never_come_end_with_the_callers_patience(settings: Settings) -> None:
    async def silent(request: web.Request) -> web.StreamResponse:
        await asyncio.Event().wait()
        raise AssertionError

    started = time.monotonic()
    with pytest.raises(TimeoutError):
        fetched(settings, silent, total=0.3)
    assert time.monotonic() - started < 2


def test_what_was_too_large_leaves_no_connection_behind(settings: Settings) -> None:
    async def main(wire: Wire) -> int:
        async with serving(answer(b"x" * MEGABYTE)) as port:
            settings.EGRESS_ALLOW = frozenset({f"127.0.0.1:{port}"})
            for _ in range(2):
                async with egress.open_session().get(f"http://127.0.0.1:{port}/") as response:
                    with pytest.raises(PayloadTooLarge):
                        await egress.read_limited_body(response, LIMIT)
                    assert response.closed
        return len(wire.connected)

    assert run(main) == 2
