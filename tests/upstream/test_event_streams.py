"""HTTP+SSE: one stream brings every answer, and its end leaves nobody waiting."""

import asyncio

import pytest

from mcp.client import sse_connection
from mcp.protocol.upstream_errors import UpstreamFault
from tests.upstream.client import run, running
from tests.upstream.servers import Call, Json, SseServer, echo

pytestmark = pytest.mark.capability("MCP-03")


def test_calls_at_once_share_one_stream() -> None:
    async def test() -> None:
        server = SseServer()
        async with running(server) as upstream:
            results = await asyncio.gather(*(upstream.call(arguments={"n": n}, era="sse") for n in range(20)))
            assert server.opened == 1
            assert [result["content"][0]["text"] for result in results] == [f'{{"n": {n}}}' for n in range(20)]

    run(test)


def test_the_end_of_the_stream_ends_every_call_and_the_next_opens_another() -> None:
    begun = asyncio.Semaphore(0)
    hang = True

    async def work(call: Call) -> Json:
        if not hang:
            return await echo(call)
        begun.release()
        await asyncio.sleep(60)
        raise AssertionError

    async def test() -> None:
        nonlocal hang
        server = SseServer(work=work)
        async with running(server) as upstream:
            calls = [asyncio.create_task(upstream.call(era="sse", timeout=60)) for _ in range(3)]
            for _ in calls:
                await begun.acquire()
            server.streams[0].put_nowait(None)
            async with asyncio.timeout(2):
                ended = await asyncio.gather(*calls, return_exceptions=True)
            for fault in ended:
                assert isinstance(fault, UpstreamFault)
                assert (fault.code, fault.sent) == ("closed", True)
            for task in server.tasks:
                task.cancel()
            hang = False
            assert (await upstream.call(era="sse"))["isError"] is False
            assert server.opened == 2
            assert server.methods().count("tools/call") == 4

    run(test)


ELSEWHERE = (
    "http://elsewhere.invalid/messages", "//elsewhere.invalid/messages", "https://127.0.0.1/messages",
    "http://127.0.0.1:1/messages", "http://[bad",
)  # fmt: skip


@pytest.mark.parametrize("endpoint", ELSEWHERE)
def test_an_endpoint_of_another_origin_is_refused(endpoint: str) -> None:
    async def test() -> None:
        server = SseServer(endpoint=endpoint)
        async with running(server) as upstream:
            with pytest.raises(UpstreamFault) as caught:
                await upstream.call(era="sse")
            assert (caught.value.code, caught.value.sent) == ("protocol", False)
            assert "origin" in caught.value.detail
            assert server.got == []

    run(test)


def test_a_stream_that_nobody_uses_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse_connection, "IDLE_SECONDS", 0.05)

    async def test() -> None:
        server = SseServer()
        async with running(server) as upstream:
            await upstream.call(era="sse")
            while server.streams:
                # A server notices that a client has gone when it writes.
                server.streams[0].put_nowait(b": still there?\n\n")
                await asyncio.sleep(0.01)
            await upstream.call(era="sse")
            assert server.opened == 2

    run(test)


def test_garbage_on_the_stream_ends_it() -> None:
    async def work(_call: Call) -> Json:
        server.streams[0].put_nowait(b"data: {\n\n")
        await asyncio.sleep(60)
        raise AssertionError

    server = SseServer(work=work)

    async def test() -> None:
        async with running(server) as upstream:
            with pytest.raises(UpstreamFault) as caught:
                await upstream.call(era="sse")
            assert (caught.value.code, caught.value.sent) == ("protocol", True)
            for task in server.tasks:
                task.cancel()

    run(test)
