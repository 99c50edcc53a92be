"""Bodies, before anything of ours or of the framework's keeps them.

Django writes a whole body to disk before it asks who sent it, and takes one that came in chunks, without a length, for
an empty one. Here a body is read into memory up to a byte more than the limit, which is enough for a parser to refuse
it, and given on with its length. One that does not arrive in time is refused.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

from common.ids import parse_uuid, uuid7

Message = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Application = Callable[[dict[str, Any], Receive, Any], Awaitable[None]]
#: Read and thrown away, so that a client who is still sending hears the refusal; whoever sends more is cut off.
DRAINED = 16 * 1024 * 1024
#: For a whole body to arrive.
BODY_SECONDS = 30.0


def bounded(application: Application, *, limit: int) -> Application:
    async def checked(scope: dict[str, Any], receive: Receive, send: Any) -> None:
        if scope["type"] != "http":
            await application(scope, receive, send)
            return
        try:
            async with asyncio.timeout(BODY_SECONDS):
                body = await _read(receive, limit)
        except TimeoutError:
            await _refuse_late_body(scope, send)
            return
        if body is not None:
            await application(_with_length(scope, len(body)), _again(body, receive), send)

    return checked


async def _refuse_late_body(scope: dict[str, Any], send: Any) -> None:
    """The API's envelope, and the end of the connection: what is left of the body is no request."""
    request_id = parse_uuid(dict(scope["headers"]).get(b"x-request-id", b"").decode("latin-1")) or uuid7()
    body = json.dumps({
        "error_code": "InvalidParameters",
        "message": f"The body did not arrive within {BODY_SECONDS:.0f} seconds.",
        "details": {"reason": "invalid", "fields": []},
        "request_id": str(request_id),
    }).encode()  # fmt: skip
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", b"%d" % len(body)),
        (b"connection", b"close"),
        (b"x-request-id", str(request_id).encode()),
    ]
    await send({"type": "http.response.start", "status": 400, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def _read(receive: Receive, limit: int) -> bytes | None:
    """At most a byte more than `limit`; None when the client has gone."""
    kept, seen, more = bytearray(), 0, True
    while more and seen <= DRAINED:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        part = message.get("body", b"")
        seen += len(part)
        kept += part[: limit + 1 - len(kept)]
        more = message.get("more_body", False)
    return bytes(kept)


def _with_length(scope: dict[str, Any], length: int) -> dict[str, Any]:
    given = [(name, value) for name, value in scope["headers"] if name != b"content-length"]
    return {**scope, "headers": [*given, (b"content-length", b"%d" % length)] if length else given}


def _again(body: bytes, receive: Receive) -> Receive:
    left = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return left.pop() if left else await receive()

    return replay


async def kept(application: Application, scope: dict[str, Any], body: bytes = b"") -> list[Message]:
    """What the application answers to a request with this body, in memory. Whether its client stays is watched by who
    asks for this."""
    messages: list[Message] = []

    async def keep(message: Message) -> None:
        messages.append(message)

    await application(scope, _again(body, _never), keep)
    return messages


async def _never() -> Message:
    await asyncio.Event().wait()
    raise AssertionError  # nobody sets it
