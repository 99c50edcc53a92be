"""An A2A 1.0 server over JSON-RPC that does as it is told, to the byte: for what no honest server does.

far.on["SendMessage"] = [status(503, "Retry-After: 1"), result({"task": task("working")})]

The last answer of a list stays. Each answer is a function of the request and the stream that it is written to.
"""

import asyncio
import json
import ssl
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

TASK_ID, CONTEXT_ID = "far-task", "far-context"


@dataclass
class Request:
    method: str
    path: str
    headers: dict[str, str]
    body: Any
    reader: asyncio.StreamReader

    @property
    def name(self) -> str:
        return str(self.body["method"]) if isinstance(self.body, dict) else "card"


Answer = Callable[[Request, asyncio.StreamWriter], Awaitable[None]]


@dataclass
class FarSide:
    port: int = 0
    streaming: bool = False
    requests: list[Request] = field(default_factory=list)
    on: dict[str, list[Answer]] = field(default_factory=dict)
    loop: asyncio.AbstractEventLoop = field(init=False)
    heard: threading.Condition = field(default_factory=threading.Condition)

    @property
    def place(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        return f"http://{self.place}"

    def card(self, **changed: Any) -> dict[str, Any]:
        way = {"url": f"{self.url}/rpc", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
        return {"name": "far", "supportedInterfaces": [way], "capabilities": {"streaming": self.streaming}, **changed}

    def named(self, name: str) -> list[Request]:
        return [request for request in self.requests if request.name == name]

    def wait_for(self, name: str, count: int = 1) -> None:
        with self.heard:
            assert self.heard.wait_for(lambda: len(self.named(name)) >= count, 20), f"{name} was not asked for."

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            request = await _read(reader)
            with self.heard:
                self.requests.append(request)
                self.heard.notify_all()
            left = self.on.get(request.name) or [plain(self.card()) if request.name == "card" else status(404)]
            await (left.pop(0) if len(left) > 1 else left[0])(request, writer)
        writer.close()


async def _read(reader: asyncio.StreamReader) -> Request:
    head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    method, path, _ = head[0].split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
    raw = await reader.readexactly(int(headers.get("content-length", "0")))
    return Request(method, path, headers, json.loads(raw) if raw else None, reader)


@contextmanager
def far_side(tls: ssl.SSLContext | None = None) -> Iterator[FarSide]:
    far, ready, over = FarSide(), threading.Event(), asyncio.Event()

    async def live() -> None:
        server = await asyncio.start_server(far.serve, "127.0.0.1", 0, ssl=tls)
        far.port, far.loop = server.sockets[0].getsockname()[1], asyncio.get_running_loop()
        ready.set()
        await over.wait()
        server.close()

    thread = threading.Thread(target=asyncio.run, args=(live(),), daemon=True)
    thread.start()
    assert ready.wait(5)
    yield far
    far.loop.call_soon_threadsafe(over.set)
    thread.join(5)


def said(code: int, body: bytes, kind: str = "application/json", *lines: str) -> bytes:
    head = [
        f"HTTP/1.1 {code} Said",
        f"Content-Type: {kind}",
        f"Content-Length: {len(body)}",
        "Connection: close",
        *lines,
    ]
    return "\r\n".join([*head, "", ""]).encode() + body


def raw(*chunks: bytes) -> Answer:
    """Exactly these bytes, then the end of the connection."""

    async def answer(_request: Request, writer: asyncio.StreamWriter) -> None:
        for chunk in chunks:
            writer.write(chunk)
            await writer.drain()

    return answer


def plain(body: Any) -> Answer:
    return raw(said(200, json.dumps(body).encode()))


def status(code: int, *lines: str, body: Any = None) -> Answer:
    return raw(said(code, json.dumps(body).encode() if body else b"", "application/json", *lines))


def result(value: Any, **changed: Any) -> Answer:
    async def answer(request: Request, writer: asyncio.StreamWriter) -> None:
        body = {"jsonrpc": "2.0", "id": request.body["id"], "result": value, **changed}
        writer.write(said(200, json.dumps(body).encode()))

    return answer


def error(code: int, message: str) -> Answer:
    async def answer(request: Request, writer: asyncio.StreamWriter) -> None:
        body = {"jsonrpc": "2.0", "id": request.body["id"], "error": {"code": code, "message": message}}
        writer.write(said(200, json.dumps(body).encode()))

    return answer


def stream(*values: Any, then: Answer | None = None) -> Answer:
    """These events, then the end of the stream, or what `then` does with it."""

    async def answer(request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")
        for value in values:
            body = {"jsonrpc": "2.0", "id": request.body["id"], "result": value}
            writer.write(b"data: " + json.dumps(body).encode() + b"\n\n")
            await writer.drain()
        if then is not None:
            await then(request, writer)

    return answer


def once(release: asyncio.Event, answer: Answer) -> Answer:
    """As soon as that is set."""

    async def later(request: Request, writer: asyncio.StreamWriter) -> None:
        await release.wait()
        await answer(request, writer)

    return later


async def hang(request: Request, _writer: asyncio.StreamWriter) -> None:
    """Until the other side hangs up."""
    await request.reader.read()


def task(state: str, said_so: str = "", *, at: str = "2026-11-19T00:00:00Z", **more: Any) -> dict[str, Any]:
    return {"id": TASK_ID, "contextId": CONTEXT_ID, "status": _status(state, said_so, at), **more}


def update(state: str, said_so: str = "", *, at: str = "2026-11-19T00:00:00Z") -> dict[str, Any]:
    return {"statusUpdate": {"taskId": TASK_ID, "contextId": CONTEXT_ID, "status": _status(state, said_so, at)}}


def made(artifact_id: str, *texts: str, append: bool = False) -> dict[str, Any]:
    ids = {"taskId": TASK_ID, "contextId": CONTEXT_ID}
    return {"artifactUpdate": {**ids, "artifact": artifact(artifact_id, *texts), "append": append}}


def artifact(artifact_id: str, *texts: str) -> dict[str, Any]:
    return {"artifactId": artifact_id, "parts": [{"text": text} for text in texts]}


def _status(state: str, said_so: str, at: str) -> dict[str, Any]:
    told = {"state": f"TASK_STATE_{state.upper()}", "timestamp": at}
    if not said_so:
        return told
    return {**told, "message": {"messageId": f"m-{said_so}", "role": "ROLE_AGENT", "parts": [{"text": said_so}]}}
