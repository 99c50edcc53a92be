"""The way back: one answer, or events as they come."""

import json
from typing import Any

import orjson

from common.asgi.headers import HeaderPairs

STREAM = (
    (b"content-type", b"text/event-stream"),
    # Between here and the client nobody may gather events up before passing them on.
    (b"x-accel-buffering", b"no"),
)
KEEP_ALIVE = b": keep-alive\n\n"


def encoded(told: Any) -> bytes:
    """Whatever was stored can be told, whole numbers of any length among it."""
    try:
        return orjson.dumps(told)
    except TypeError:
        return json.dumps(told).encode()


class Reply:
    def __init__(self, send: Any, headers: HeaderPairs) -> None:
        self._send, self._headers = send, headers
        self.has_begun = False

    async def whole(self, status: int, told: Any, *, media: str, headers: HeaderPairs = ()) -> None:
        body = b"" if told is None else encoded(told)
        kind = (b"content-type", media.encode()), (b"content-length", b"%d" % len(body))
        await self._begin(status, (*kind, *headers))
        await self._part(body, more=False)

    async def event(self, told: Any, *, seq: int | None = None, name: str = "") -> None:
        lines = [f"event: {name}\n"] if name else []
        lines += [f"id: {seq}\n"] if seq is not None else []
        await self.piece("".join(lines).encode() + b"data: " + encoded(told) + b"\n\n")

    async def keep_alive(self) -> None:
        await self.piece(KEEP_ALIVE)

    async def piece(self, said: bytes) -> None:
        if not self.has_begun:
            await self._begin(200, STREAM)
        await self._part(said, more=True)

    async def end(self) -> None:
        await self._part(b"", more=False)

    async def _begin(self, status: int, headers: HeaderPairs) -> None:
        self.has_begun = True
        await self._send({"type": "http.response.start", "status": status, "headers": [*self._headers, *headers]})

    async def _part(self, body: bytes, *, more: bool) -> None:
        await self._send({"type": "http.response.body", "body": body, "more_body": more})
