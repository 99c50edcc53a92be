"""Servers of each era, in this process, that speak the real protocol and note what they were sent."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

Json = dict[str, Any]
TOOLS: list[Json] = [
    {"name": "echo", "description": "Says it again", "inputSchema": {"type": "object"}, "x-unknown": {"kept": True}},
    {"name": "fail", "inputSchema": {"type": "object"}},
]
META = "io.modelcontextprotocol/"
Work = Callable[["Call"], Awaitable[Json]]


class Refused(Exception):
    def __init__(self, code: int, message: str, *, status: int = 200, data: Any = None) -> None:
        super().__init__(message)
        self.error = {"code": code, "message": message} | ({} if data is None else {"data": data})
        self.status = status


@dataclass
class Call:
    """One request of a client's, and the way to tell it something before the answer."""

    message: Json
    headers: dict[str, str]
    tell: Callable[[Json], Awaitable[None]]

    @property
    def params(self) -> Json:
        return self.message.get("params", {})


async def echo(call: Call) -> Json:
    if call.params["name"] != "echo":
        raise Refused(-32602, f"Unknown tool: {call.params['name']}", status=200)
    token = call.params.get("_meta", {}).get("progressToken")
    if token is not None:
        for done in (1, 2, 2, 3):
            note = {"progressToken": token, "progress": done, "total": 3, "message": f"step {done}"}
            await call.tell({"jsonrpc": "2.0", "method": "notifications/progress", "params": note})
    text = json.dumps(call.params["arguments"], sort_keys=True)
    return {"content": [{"type": "text", "text": text}], "isError": False, "x-unknown": [1, None]}


@dataclass
class Server:
    """What the eras have in common."""

    work: Work = echo
    tools: list[Json] = field(default_factory=lambda: TOOLS)
    page: int = 100
    #: Every message that came, and the headers it came with.
    got: list[Json] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    #: Set when a request's connection closed before it was answered.
    left: asyncio.Event = field(default_factory=asyncio.Event)
    answer_as_stream: bool = False
    url: str = ""

    def methods(self) -> list[str]:
        return [message.get("method", "answer") for message in self.got]

    async def note(self, request: web.Request) -> tuple[Json, dict[str, str]]:
        message = json.loads(await request.read())
        headers = {name.lower(): value for name, value in request.headers.items()}
        self.got.append(message)
        self.headers.append(headers)
        return message, headers

    async def result(self, call: Call) -> Json:
        method = call.message["method"]
        if method == "tools/list":
            start = int(call.params.get("cursor") or 0)
            more = {"nextCursor": str(start + self.page)} if start + self.page < len(self.tools) else {}
            return {"tools": self.tools[start : start + self.page], **more}
        if method == "tools/call":
            return await self.work(call)
        raise Refused(-32601, f"Method not found: {method}", status=404)

    async def respond(self, request: web.Request, message: Json, headers: dict[str, str]) -> web.StreamResponse:
        if self.answer_as_stream:
            return await self._stream(request, message, headers)
        told: list[Json] = []

        async def tell(note: Json) -> None:
            told.append(note)

        try:
            answer = await self.answer(Call(message, headers, tell))
        except asyncio.CancelledError:
            self.left.set()
            raise
        status = answer.pop("status", 200)
        return web.json_response(answer, status=status)

    async def _stream(self, request: web.Request, message: Json, headers: dict[str, str]) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)

        async def tell(note: Json) -> None:
            await response.write(f"event: message\ndata: {json.dumps(note)}\n\n".encode())

        try:
            answer = await self.answer(Call(message, headers, tell))
            answer.pop("status", None)
            await tell(answer)
        except (asyncio.CancelledError, ConnectionResetError):
            self.left.set()
            raise
        return response

    async def answer(self, call: Call) -> Json:
        try:
            return {"jsonrpc": "2.0", "id": call.message["id"], "result": await self.result(call)}
        except Refused as refused:
            return {"jsonrpc": "2.0", "id": call.message["id"], "error": refused.error, "status": refused.status}

    def app(self) -> web.Application:
        app = web.Application(client_max_size=64 << 20)
        app.router.add_route("*", "/mcp", self.handle)
        return app

    async def handle(self, request: web.Request) -> web.StreamResponse:
        raise NotImplementedError


@dataclass
class ModernServer(Server):
    supported: tuple[str, ...] = ("2026-07-28",)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        if request.method != "POST":
            return web.Response(status=405)
        message, headers = await self.note(request)
        wrong = self._wrong(message, headers)
        if wrong is not None:
            body = {"jsonrpc": "2.0", "id": message.get("id"), "error": wrong.error}
            return web.json_response(body, status=wrong.status)
        return await self.respond(request, message, headers)

    def _wrong(self, message: Json, headers: dict[str, str]) -> Refused | None:
        meta = message.get("params", {}).get("_meta", {})
        if META + "protocolVersion" not in meta or META + "clientCapabilities" not in meta:
            return Refused(-32602, "Required metadata is missing", status=400)
        version = meta[META + "protocolVersion"]
        if headers.get("mcp-protocol-version") != version or headers.get("mcp-method") != message["method"]:
            return Refused(-32020, "Headers differ from the body", status=400)
        if version not in self.supported:
            data = {"supported": list(self.supported), "requested": version}
            return Refused(-32022, "Unsupported protocol version", status=400, data=data)
        return None

    async def result(self, call: Call) -> Json:
        if call.message["method"] == "server/discover":
            found: Json = {
                "supportedVersions": list(self.supported), "capabilities": {"tools": {}}, "instructions": "Be kind.",
                "ttlMs": 0, "cacheScope": "private",
            }  # fmt: skip
        else:
            found = await super().result(call)
        info = {META + "serverInfo": {"name": "modern", "version": "7"}}
        return {"resultType": "complete", "_meta": info, **found}


@dataclass
class LegacyServer(Server):
    version: str = "2025-11-25"
    sessions: set[str] = field(default_factory=set)
    opened: int = 0
    unknown_session_status: int = 404
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        if request.method == "DELETE":
            self.sessions.discard(request.headers.get("Mcp-Session-Id", ""))
            self.ended.set()
            return web.Response(status=204)
        if request.method != "POST":
            return web.Response(status=405)
        message, headers = await self.note(request)
        if message.get("method") == "initialize":
            return self._welcome(message)
        if headers.get("mcp-session-id") not in self.sessions:
            error = {"code": -32000, "message": "Bad Request: No valid session ID provided"}
            status = self.unknown_session_status if "mcp-session-id" in headers else 400
            return web.json_response({"jsonrpc": "2.0", "id": None, "error": error}, status=status)
        if headers.get("mcp-protocol-version") != self.version:
            return web.json_response({"error": "wrong version"}, status=400)
        if "id" not in message or "method" not in message:
            return web.Response(status=202)
        return await self.respond(request, message, headers)

    def _welcome(self, message: Json) -> web.StreamResponse:
        self.opened += 1
        session = f"session-{self.opened}"
        self.sessions.add(session)
        result = {
            "protocolVersion": self.version, "capabilities": {"tools": {}},
            "serverInfo": {"name": "legacy", "version": "3"}, "instructions": "Be quick.",
        }  # fmt: skip
        answer = {"jsonrpc": "2.0", "id": message["id"], "result": result}
        return web.json_response(answer, headers={"Mcp-Session-Id": session})


@dataclass
class SseServer(Server):
    """HTTP+SSE: answers go over the stream, wherever the request was posted."""

    endpoint: str = "/messages?stream=1"
    streams: list[asyncio.Queue[bytes | None]] = field(default_factory=list)
    opened: int = 0
    tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def app(self) -> web.Application:
        app = super().app()
        app.router.add_post("/messages", self.message)
        return app

    async def handle(self, request: web.Request) -> web.StreamResponse:
        if request.method != "GET":
            return web.Response(status=405)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await response.write(f"event: endpoint\ndata: {self.endpoint}\n\n".encode())
        queue: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.streams.append(queue)
        self.opened += 1
        try:
            while (chunk := await queue.get()) is not None:
                await response.write(chunk)
        finally:
            self.streams.remove(queue)
            self.left.set()
        return response

    async def message(self, request: web.Request) -> web.StreamResponse:
        message, headers = await self.note(request)
        if not self.streams:
            return web.Response(status=404)
        if "id" in message and "method" in message:
            task = asyncio.create_task(self._answer(message, headers, self.streams[-1]))
            self.tasks.add(task)
            task.add_done_callback(self.tasks.discard)
        return web.Response(status=202, text="Accepted")

    async def _answer(self, message: Json, headers: dict[str, str], stream: asyncio.Queue[bytes | None]) -> None:
        async def tell(note: Json) -> None:
            stream.put_nowait(f"event: message\ndata: {json.dumps(note)}\n\n".encode())

        answer = await self.answer(Call(message, headers, tell))
        answer.pop("status", None)
        await tell(answer)

    async def result(self, call: Call) -> Json:
        if call.message["method"] == "initialize":
            return {"protocolVersion": "2024-11-05", "capabilities": {}, "serverInfo": {"name": "old", "version": "1"}}
        return await super().result(call)


@contextlib.asynccontextmanager
async def serving(app: web.Application) -> AsyncIterator[str]:
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()
