"""A server that says when its tools change is heard, in each era."""

import asyncio
import json
from typing import Any

import pytest
from aiohttp import web

from mcp.protocol.upstream_errors import UpstreamFault
from tests.upstream.client import run, running
from tests.upstream.servers import META, Call, Json, LegacyServer, ModernServer, SseServer

pytestmark = pytest.mark.capability("MCP-03")

CHANGED = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
ELSE = {"jsonrpc": "2.0", "method": "notifications/resources/list_changed"}


class Modern(ModernServer):
    async def result(self, call: Call) -> Json:
        if call.message["method"] != "subscriptions/listen":
            return await super().result(call)
        assert call.params["notifications"] == {"toolsListChanged": True}
        meta = {META + "subscriptionId": call.message["id"]}
        granted = {"notifications": {"toolsListChanged": True}, "_meta": meta}
        await call.tell({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": granted})
        for note in (CHANGED, ELSE, CHANGED):
            await call.tell({**note, "params": {"_meta": meta}})
        return {"_meta": meta, "resultType": "complete"}


class Legacy(LegacyServer):
    async def handle(self, request: web.Request) -> web.StreamResponse:
        if request.method != "GET":
            return await super().handle(request)
        assert request.headers["Mcp-Session-Id"] in self.sessions
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for note in (CHANGED, ELSE, CHANGED):
            await response.write(f"data: {json.dumps(note)}\n\n".encode())
        return response


SERVERS: dict[str, Any] = {"modern": lambda: Modern(answer_as_stream=True), "legacy": Legacy}


@pytest.mark.parametrize("era", SERVERS)
def test_each_change_is_told_until_the_stream_ends(era: str) -> None:
    heard: list[str] = []

    async def changed() -> None:
        heard.append("changed")

    async def test() -> None:
        async with running(SERVERS[era]()) as upstream:
            await upstream.transport.watch(upstream.target(era=era), changed, seconds=5)
            assert heard == ["changed", "changed"]

    run(test)


def test_changes_come_beside_calls_on_the_one_stream_of_old_servers() -> None:
    heard = asyncio.Semaphore(0)

    async def changed() -> None:
        heard.release()

    async def test() -> None:
        server = SseServer()
        async with running(server) as upstream:
            target = upstream.target(era="sse")
            watching = asyncio.create_task(upstream.transport.watch(target, changed, seconds=5))
            while "notifications/initialized" not in server.methods():
                await asyncio.sleep(0)
            await upstream.call(era="sse")
            for note in (ELSE, CHANGED, CHANGED):
                server.streams[0].put_nowait(f"data: {json.dumps(note)}\n\n".encode())
            await heard.acquire()
            await heard.acquire()
            assert server.opened == 1
            server.streams[0].put_nowait(None)
            with pytest.raises(UpstreamFault) as caught:
                await watching
            assert caught.value.code == "closed"

    run(test)


def test_a_server_without_such_a_stream_says_so() -> None:
    async def changed() -> None:
        raise AssertionError

    async def test() -> None:
        async with running(LegacyServer()) as upstream:
            with pytest.raises(UpstreamFault) as caught:
                await upstream.transport.watch(upstream.target(era="legacy"), changed, seconds=5)
            assert caught.value.status == 405
            assert (await upstream.call(era="legacy"))["isError"] is False

    run(test)


def test_a_watch_ends_with_its_time() -> None:
    async def changed() -> None:
        raise AssertionError

    async def test() -> None:
        server = SseServer()
        async with running(server) as upstream:
            await upstream.transport.watch(upstream.target(era="sse"), changed, seconds=0.2)
            assert server.streams

    run(test)
