"""The way back to a client: plain JSON while nothing was sent, a stream of events from the first one on."""

import asyncio
from typing import Any

from common.asgi.bodies import AsgiMessage
from mcp.server import results
from mcp.server.errors import Pairs, Refusal

#: A proxy's patience with a silent answer is seldom less.
QUIET_SECONDS = 15.0
#: Events that wait for a slow client; whatever comes while they do is left out.
WAITING = 64
PING = b": ping\n\n"
JSON = (b"content-type", b"application/json")
STREAM = (
    (b"content-type", b"text/event-stream"),
    # Between here and the client nobody may gather events up before passing them on.
    (b"x-accel-buffering", b"no"),
)


class Reply:
    def __init__(self, send: Any, headers: Pairs) -> None:
        self._send = send
        self._headers = headers
        self._events: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._stream: asyncio.Task[None] | None = None

    async def refuse(self, refusal: Refusal) -> None:
        await self.whole(refusal.status, results.encode(refusal.envelope), refusal.headers)

    async def whole(self, status: int, body: bytes, headers: Pairs = ()) -> None:
        """The answer: as the last event where a stream has begun, and its status is out; else as it is."""
        if self._stream is None:
            kind = (JSON,) if body else ()
            length = (b"content-length", b"%d" % len(body))
            await self._begin(status, (*kind, length, *headers))
            await self._part(body, last=True)
            return
        self._events.put_nowait(None)
        await self._stream
        await self._part(results.event(body), last=True)

    def event(self, body: bytes) -> None:
        """Commit to a stream, and let this go out on it. It never waits: a slow client slows no upstream down."""
        if self._events.qsize() < WAITING:
            self._events.put_nowait(results.event(body))
        self._open()

    def keep_alive(self) -> None:
        """Commit to a stream because the silence has lasted long enough."""
        if self._stream is None:
            self._events.put_nowait(PING)
            self._open()

    def abandon(self) -> None:
        if self._stream is not None:
            self._stream.cancel()

    def _open(self) -> None:
        if self._stream is None:
            self._stream = asyncio.get_running_loop().create_task(self._pass_on())

    async def _pass_on(self) -> None:
        await self._begin(200, STREAM)
        while True:
            try:
                async with asyncio.timeout(QUIET_SECONDS):
                    event = await self._events.get()
            except TimeoutError:
                event = PING
            if event is None:
                return
            await self._part(event)

    async def _begin(self, status: int, headers: Pairs) -> None:
        await self._send({"type": "http.response.start", "status": status, "headers": [*self._headers, *headers]})

    async def _part(self, body: bytes, *, last: bool = False) -> None:
        message: AsgiMessage = {"type": "http.response.body", "body": body, "more_body": not last}
        await self._send(message)
