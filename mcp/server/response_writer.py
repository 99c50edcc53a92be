"""Writes an answer as JSON, or as an event stream once an event has been sent."""

import asyncio
from typing import Any

from common.asgi.bodies import AsgiMessage
from common.asgi.headers import HeaderPairs
from mcp.server import message_builder
from mcp.server.errors import ErrorResponse

#: Proxies rarely close a silent response earlier.
KEEP_ALIVE_SECONDS = 15.0
#: Events queued for a slow client. Further events are dropped.
MAX_QUEUED_EVENTS = 64
PING = b": ping\n\n"
JSON_HEADER = (b"content-type", b"application/json")
STREAM_HEADERS = (
    (b"content-type", b"text/event-stream"),
    # Proxies must not buffer events.
    (b"x-accel-buffering", b"no"),
)


class McpResponseWriter:
    """Writes the response to one MCP request."""

    def __init__(self, send: Any, headers: HeaderPairs) -> None:
        self._send = send
        self._headers = headers
        self._events: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._stream: asyncio.Task[None] | None = None
        self._is_abandoned = False

    async def send_error(self, error_response: ErrorResponse, headers: HeaderPairs = ()) -> None:
        body = message_builder.encode_message(error_response.envelope)
        await self.send_body(error_response.status, body, (*error_response.headers, *headers))

    async def send_body(self, status: int, body: bytes, headers: HeaderPairs = ()) -> None:
        """Send the answer: as the last event if a stream is open, whose status is already sent, otherwise as JSON."""
        if self._stream is None:
            content_type = (JSON_HEADER,) if body else ()
            length = (b"content-length", b"%d" % len(body))
            await self._send_head(status, (*content_type, length, *headers))
            await self._send_part(body, last=True)
            return
        self._events.put_nowait(None)
        await self._stream
        await self._send_part(message_builder.encode_event(body) if body else b"", last=True)

    async def send_empty_stream(self) -> None:
        """End the stream, or send one without events: the answer to a request that its client has cancelled."""
        if self._stream is None:
            await self._send_head(200, STREAM_HEADERS)
            await self._send_part(b"", last=True)
        else:
            await self.send_body(200, b"")

    def send_event(self, body: bytes) -> None:
        """Open the stream if necessary and queue an event. Never block: a slow client must not slow the upstream."""
        if self._events.qsize() < MAX_QUEUED_EVENTS:
            self._events.put_nowait(message_builder.encode_event(body))
        self._open_stream()

    def keep_alive(self) -> None:
        """Open the stream with a ping, so that proxies do not close a silent response."""
        if self._stream is None:
            self._events.put_nowait(PING)
            self._open_stream()

    def abandon(self) -> None:
        """Send nothing more: the client has disconnected."""
        self._is_abandoned = True
        if self._stream is not None:
            self._stream.cancel()

    def _open_stream(self) -> None:
        if self._stream is None and not self._is_abandoned:
            self._stream = asyncio.get_running_loop().create_task(self._send_events())

    async def _send_events(self) -> None:
        await self._send_head(200, STREAM_HEADERS)
        while True:
            try:
                async with asyncio.timeout(KEEP_ALIVE_SECONDS):
                    event = await self._events.get()
            except TimeoutError:
                event = PING
            if event is None:
                return
            await self._send_part(event)

    async def _send_head(self, status: int, headers: HeaderPairs) -> None:
        await self._send({"type": "http.response.start", "status": status, "headers": [*self._headers, *headers]})

    async def _send_part(self, body: bytes, *, last: bool = False) -> None:
        message: AsgiMessage = {"type": "http.response.body", "body": body, "more_body": not last}
        await self._send(message)
