"""An MCP server of this test process, of the current version, that does what a test wants of it and counts."""

import asyncio
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

Json = dict[str, Any]
VERSION = "2026-07-28"


@dataclass
class Peer:
    """`mode` says how it answers calls: "echo", "hang" until `let_go`, a server's "error", a tool's "fail"."""

    tools: list[Json]
    mode: str = "echo"
    port: int = 0
    calls: list[Json] = field(default_factory=list)
    most_at_once: int = 0
    headers: list[dict[str, str]] = field(default_factory=list)
    cancelled: int = 0
    #: Answers calls instead of any mode.
    answers: Callable[[web.Request, Json], Awaitable[web.StreamResponse]] | None = None
    #: Waited for before the tools are listed.
    before_listing: Callable[[], None] | None = None
    #: Answers whatever comes.
    refuses: Callable[[web.Request], Awaitable[web.StreamResponse]] | None = None
    #: What discovery says besides.
    said_of_itself: Json = field(default_factory=dict)
    _at_once: int = 0
    _loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.new_event_loop)
    _free: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    @property
    def call_ids(self) -> Counter[str]:
        """How often each governed call has arrived here."""
        return Counter(call["params"]["_meta"]["gatehouse/call_id"] for call in list(self.calls))

    def forget(self) -> None:
        self.calls.clear()
        self.headers.clear()
        self.most_at_once = self.cancelled = 0

    def let_go(self) -> None:
        self._loop.call_soon_threadsafe(self._free.set)

    def hold(self) -> None:
        self.mode = "hang"
        self._loop.call_soon_threadsafe(self._free.clear)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        if self.refuses is not None:
            return await self.refuses(request)
        message: Json = await request.json()
        if message["method"] != "tools/call":
            if message["method"] == "tools/list" and self.before_listing is not None:
                await asyncio.to_thread(self.before_listing)
            return web.json_response({"jsonrpc": "2.0", "id": message["id"], "result": self._said(message["method"])})
        self.calls.append(message)
        self.headers.append(dict(request.headers))
        self._at_once += 1
        self.most_at_once = max(self.most_at_once, self._at_once)
        try:
            return await (self.answers(request, message) if self.answers else self._call(message))
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self._at_once -= 1

    async def _call(self, message: Json) -> web.Response:
        if self.mode == "hang":
            await self._free.wait()
        if self.mode == "error":
            return web.Response(status=500, text="out of order")
        text = str(message["params"]["arguments"])
        result = {"resultType": "complete", "content": [{"type": "text", "text": text}], "isError": self.mode == "fail"}
        return web.json_response({"jsonrpc": "2.0", "id": message["id"], "result": result})

    def _said(self, method: str) -> Json:
        shared = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
        if method == "server/discover":
            info = {"name": "peer", "version": "1"}
            return {
                **shared,
                "supportedVersions": [VERSION],
                "capabilities": {"tools": {}},
                "serverInfo": info,
                **self.said_of_itself,
            }
        return {**shared, "tools": self.tools}

    async def _serve(self, started: threading.Event) -> None:
        application = web.Application(client_max_size=32 * 1024 * 1024)
        application.router.add_post("/mcp", self.answer)
        runner = web.AppRunner(application, handler_cancellation=True, access_log=None)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", self.port)
        await site.start()
        server: Any = site._server
        self.port = server.sockets[0].getsockname()[1]
        self._ended = asyncio.Event()
        started.set()
        await self._ended.wait()
        self._free.set()
        await runner.cleanup()


def tool(name: str, **schema: Any) -> Json:
    return {"name": name, "description": f"The tool {name}", "inputSchema": schema or {"type": "object"}}


@contextmanager
def serving(*names: str, port: int = 0) -> Iterator[Peer]:
    peer = Peer([tool(name) for name in names or ("echo",)], port=port)
    started = threading.Event()

    def live() -> None:
        asyncio.set_event_loop(peer._loop)
        peer._loop.run_until_complete(peer._serve(started))
        peer._loop.close()

    thread = threading.Thread(target=live, daemon=True)
    thread.start()
    assert started.wait(10)
    try:
        yield peer
    finally:
        peer._loop.call_soon_threadsafe(peer._ended.set)
        thread.join(10)
