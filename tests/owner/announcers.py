"""Servers over HTTP, of each era, that say when their tools change; each in a thread of this process."""

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from aiohttp import web

from tests.upstream.servers import META, Call, Json, LegacyServer, ModernServer, Server, SseServer

CHANGED: Json = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}


@dataclass
class Announcer(Server):
    offered: bool = True
    listeners: set["asyncio.Queue[Json]"] = field(default_factory=set)
    #: How often somebody began to listen.
    listened: int = 0
    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.new_event_loop)
    port: int = 0

    @property
    def capabilities(self) -> Json:
        return {"tools": {"listChanged": True} if self.offered else {}}

    def announce(self, times: int = 1) -> None:
        for _ in range(times):
            self.loop.call_soon_threadsafe(self._announce)

    def _announce(self) -> None:
        for listener in self.listeners:
            listener.put_nowait(CHANGED)

    @contextmanager
    def listening(self) -> Iterator["asyncio.Queue[Json]"]:
        queue: asyncio.Queue[Json] = asyncio.Queue()
        self.listeners.add(queue)
        self.listened += 1
        try:
            yield queue
        finally:
            self.listeners.discard(queue)


@dataclass
class Modern(Announcer, ModernServer):
    answer_as_stream: bool = True

    async def result(self, call: Call) -> Json:
        if call.message["method"] == "server/discover":
            return {**await super().result(call), "capabilities": self.capabilities}
        if call.message["method"] != "subscriptions/listen":
            return await super().result(call)
        meta = {META + "subscriptionId": call.message["id"]}
        granted = {"notifications": {"toolsListChanged": True}, "_meta": meta}
        await call.tell({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": granted})
        with self.listening() as queue:
            while True:
                await call.tell({**await queue.get(), "params": {"_meta": meta}})


@dataclass
class Legacy(Announcer, LegacyServer):
    #: What it answers to whoever would listen, when it has no stream.
    refuses: int = 0

    async def handle(self, request: web.Request) -> web.StreamResponse:
        if request.method != "GET":
            return await super().handle(request)
        if self.refuses or request.headers.get("Mcp-Session-Id") not in self.sessions:
            self.listened += 1
            return web.Response(status=self.refuses or 404)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        with self.listening() as queue:
            while True:
                await response.write(f"data: {json.dumps(await queue.get())}\n\n".encode())

    def _welcome(self, message: Json) -> web.StreamResponse:
        reply = super()._welcome(message)
        assert isinstance(reply, web.Response)
        assert reply.text
        answer = json.loads(reply.text)
        answer["result"]["capabilities"] = self.capabilities
        return web.json_response(answer, headers={"Mcp-Session-Id": reply.headers["Mcp-Session-Id"]})


@dataclass
class Sse(Announcer, SseServer):
    async def result(self, call: Call) -> Json:
        found = await super().result(call)
        return {**found, "capabilities": self.capabilities} if call.message["method"] == "initialize" else found

    def _announce(self) -> None:
        for stream in self.streams:
            stream.put_nowait(f"data: {json.dumps(CHANGED)}\n\n".encode())


@contextmanager
def serving(server: Announcer) -> Iterator[Announcer]:
    """It runs, on the port where it ran before if it did."""
    started, ended = threading.Event(), asyncio.Event()

    async def live() -> None:
        runner = web.AppRunner(server.app(), handler_cancellation=True, shutdown_timeout=0.1, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", server.port).start()
        server.port = runner.addresses[0][1]
        server.url = f"http://127.0.0.1:{server.port}/mcp"
        started.set()
        await ended.wait()
        await runner.cleanup()

    def run() -> None:
        server.loop.run_until_complete(live())
        server.loop.close()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    assert started.wait(10)
    try:
        yield server
    finally:
        server.loop.call_soon_threadsafe(ended.set)
        thread.join(10)
        assert not thread.is_alive()
