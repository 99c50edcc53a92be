"""Servers that hang, babble, trickle, flood, hang up or lead elsewhere: each gives its own fault, in its own time."""

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

import pytest

from mcp.protocol.upstream_errors import UpstreamFault
from tests.upstream.client import run, to

pytestmark = pytest.mark.capability("MCP-03")

Write = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def http(status: str, kind: str, body: bytes, *headers: str, length: int | None = None) -> bytes:
    head = [f"HTTP/1.1 {status}", f"Content-Type: {kind}", f"Content-Length: {len(body) if length is None else length}"]
    return "\r\n".join([*head, *headers, "", ""]).encode() + body


def says(*parts: bytes, pause: float = 0.0, then_hang: bool = False) -> Write:
    async def write(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for part in parts:
            writer.write(part)
            await writer.drain()
            if pause:
                await asyncio.sleep(pause)
        if then_hang:
            await reader.read()

    return write


async def floods(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\ndata: ")
    while True:
        writer.write(b"x" * (1 << 20))
        await writer.drain()


async def resets(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()


def result(value: object, *, id: object = 1) -> bytes:  # noqa: A002 -- the protocol's own name
    return json.dumps({"jsonrpc": "2.0", "id": id, "result": value}).encode()


def error(code: object) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 1, "error": {"code": code, "message": "no"}}).encode()


HTML = b"<!doctype html><title>Welcome</title>"
STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
DRIP = http("200 OK", "application/json", b"", length=10_000)


@dataclass(frozen=True)
class Case:
    write: Write
    code: str
    sent: bool = True
    #: Seconds after which the fault comes; None for at once.
    after: float | None = None
    says: str = ""


CASES = {
    "never answers": Case(says(then_hang=True), "timeout", after=1),
    "answers one byte at a time": Case(says(DRIP, *([b"x"] * 100), pause=0.1), "timeout", after=1),
    "drips in an event stream": Case(says(STREAM, *([b":"] * 100), pause=0.1), "timeout", after=1),
    "pings and says nothing": Case(says(STREAM, *([b": ping\n\n"] * 100), pause=0.1), "timeout", after=1),
    "floods": Case(floods, "too_large"),
    "announces too much": Case(
        says(http("200 OK", "application/json", b"", length=1 << 30), *([b"x" * (1 << 20)] * 18)), "too_large"
    ),
    "hangs up at once": Case(says(), "closed"),
    "resets": Case(resets, "closed"),
    "hangs up in the body": Case(says(http("200 OK", "application/json", b'{"json', length=500)), "closed"),
    "hangs up in the stream": Case(says(STREAM, b"data: {"), "closed"),
    "ends the stream without an answer": Case(says(STREAM, b": bye\n\n"), "closed"),
    "speaks no HTTP": Case(says(b"SSH-2.0-OpenSSH_9.6\r\n"), "protocol"),
    "answers a page": Case(says(http("200 OK", "text/html", HTML)), "protocol", says="text/html"),
    "answers garbage": Case(says(http("200 OK", "application/json", b"\xff\x00{")), "protocol", says="not JSON"),
    "answers a stream of garbage": Case(says(STREAM, b"data: {\n\n"), "protocol", says="not JSON"),
    "answers no envelope": Case(says(http("200 OK", "application/json", b'{"ok": true}')), "protocol"),
    "answers a list of nothing": Case(says(http("200 OK", "application/json", b"[]")), "protocol"),
    "answers somebody else": Case(says(http("200 OK", "application/json", result({}, id=99))), "protocol"),
    "answers id true": Case(says(http("200 OK", "application/json", result({}, id=True))), "protocol"),
    "answers no object": Case(says(http("200 OK", "application/json", result([]))), "protocol"),
    "answers an error without a code": Case(says(http("200 OK", "application/json", error("no"))), "protocol"),
    "accepts and is silent": Case(says(http("202 Accepted", "text/plain", b"")), "protocol", says="202"),
    "asks for input": Case(
        says(http("200 OK", "application/json", result({"resultType": "input_required"}))), "unsupported",
        says="more input",
    ),
    "answers an unknown kind": Case(
        says(http("200 OK", "application/json", result({"resultType": "task"}))), "protocol", says="'task'"
    ),
    "redirects": Case(
        says(http("302 Found", "text/plain", b"", "Location: http://a:b@127.0.0.1:1/?key=s3cret")), "http_status",
        sent=False, says="redirect (302) to http://127.0.0.1:1/,",
    ),
    "does not know us": Case(
        says(http("401 Unauthorized", "application/json", error(-32001))), "auth", sent=False,
        says="refused our credentials (401)",
    ),
    "forbids": Case(says(http("403 Forbidden", "text/html", HTML)), "auth", sent=False, says="(403)"),
    "is broken": Case(says(http("500 Internal Server Error", "text/html", HTML)), "http_status", says="500"),
    "has a bad gateway": Case(says(http("502 Bad Gateway", "text/html", HTML)), "http_status", says="502"),
    "is too busy": Case(says(http("429 Too Many Requests", "text/html", HTML)), "http_status", sent=False),
    "never ends its refusal": Case(
        says(http("503 Service Unavailable", "application/json", b"{", length=500), then_hang=True), "http_status",
        after=2,
    ),
}  # fmt: skip


@contextlib.asynccontextmanager
async def raw(write: Write) -> AsyncIterator[str]:
    """Reads whole requests and answers with bytes."""
    handlers: set[asyncio.Task[None]] = set()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        handlers.add(task)
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            if b"content-length: " in head:
                await reader.readexactly(int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0]))
            await write(reader, writer)
        except (asyncio.CancelledError, ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp"
    finally:
        server.close()
        for task in handlers:
            task.cancel()
        await asyncio.gather(*handlers, return_exceptions=True)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_call_ends_with_the_fault_that_fits(case: Case) -> None:
    async def test() -> None:
        async with raw(case.write) as url, to(url) as upstream:
            started = time.monotonic()
            with pytest.raises(UpstreamFault) as caught:
                await upstream.call(era="modern", timeout=1 if case.code == "timeout" else 10)
            took = time.monotonic() - started
            fault = caught.value
            assert (fault.code, fault.sent) == (case.code, case.sent), fault.detail
            assert case.says in fault.detail
            assert fault.detail.endswith(".")
            assert (case.after or 0) - 0.1 <= took < (case.after or 0) + 4

    run(test)


@pytest.mark.parametrize("era", ["modern", "legacy", "sse", ""])
@pytest.mark.parametrize("what", ["nobody listens", "no such host"])
def test_a_server_that_is_not_there_was_sent_nothing(era: str, what: str) -> None:
    async def test() -> None:
        async with raw(says()) as url:
            pass
        async with to("http://nobody.invalid/mcp" if what == "no such host" else url) as upstream:
            with pytest.raises(UpstreamFault) as caught:
                await upstream.call(era=era)
            assert (caught.value.code, caught.value.sent) == ("unreachable", False)

    run(test)


@pytest.mark.parametrize(
    "name", ["never answers", "drips in an event stream", "redirects", "does not know us", "is broken", "floods"]
)
@pytest.mark.parametrize("era", ["legacy", "sse", ""])
def test_before_the_call_was_sent_it_had_no_effect(era: str, name: str) -> None:
    """The handshake fails the same way, and the fault says that the call itself never left."""

    async def test() -> None:
        case = CASES[name]
        async with raw(case.write) as url, to(url) as upstream:
            with pytest.raises(UpstreamFault) as caught:
                await upstream.call(era=era, handshake_timeout=0.5)
            assert (caught.value.code, caught.value.sent) == (case.code, False), caught.value.detail

    run(test)


@pytest.mark.parametrize("name", ["never answers", "does not know us", "is broken", "redirects", "hangs up at once"])
def test_what_is_no_verdict_ends_the_probe(name: str) -> None:
    """One request, and no guess at an era."""

    async def test() -> None:
        asked = 0

        async def write(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal asked
            asked += 1
            await CASES[name].write(reader, writer)

        async with raw(write) as url, to(url) as upstream:
            with pytest.raises(UpstreamFault) as caught:
                await upstream.transport.handshake(upstream.target(), timeout=0.5)
            assert caught.value.code == CASES[name].code
            # What has no effect is asked again, once, on a new connection.
            assert asked == (2 if name == "hangs up at once" else 1)

    run(test)


def test_a_failed_handshake_tells_what_was_tried() -> None:
    async def test() -> None:
        async with raw(says(http("200 OK", "text/html", HTML))) as url, to(url) as upstream:
            with pytest.raises(UpstreamFault) as caught:
                await upstream.transport.handshake(upstream.target(), timeout=5)
            assert caught.value.steps[0] == "POST server/discover, 2026-07-28"
            assert "POST initialize" in caught.value.steps
            assert "text/html" in caught.value.steps[-1]

    run(test)
