"""Reads request bodies with a size and a time limit.

A body is read into memory up to one byte more than the limit, which is enough for a parser to refuse it. A body that
does not arrive in time is refused. The MCP, REST and A2A handlers beside Django read bodies here. `limit_body` does it
for Django, which would write a whole body to disk before it authenticates the request, and would treat a chunked body
without a length as empty.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

from common.ids import parse_uuid, uuid7

AsgiMessage = dict[str, Any]
Receive = Callable[[], Awaitable[AsgiMessage]]
AsgiApplication = Callable[[dict[str, Any], Receive, Any], Awaitable[None]]
#: Bytes that are read and discarded, so that a client that is still sending receives the refusal. A client that sends
#: more is disconnected.
MAX_DRAINED_BYTES = 16 * 1024 * 1024
#: Time limit for a whole body to arrive.
BODY_TIMEOUT_SECONDS = 30.0


class ClientDisconnected(Exception):
    """The client disconnected, so no response can be sent."""


class BodyTimeout(Exception):
    """The body did not arrive in time. The message is meant for the client."""

    def __init__(self) -> None:
        super().__init__(f"The body did not arrive within {BODY_TIMEOUT_SECONDS:.0f} seconds.")


async def read_body(receive: Receive, *, max_bytes: int) -> bytes:
    """Read the body. Truncate a longer body to one byte more than the limit, so that the caller can refuse it."""
    try:
        async with asyncio.timeout(BODY_TIMEOUT_SECONDS):
            message = await receive()
            if message["type"] == "http.request" and not message.get("more_body"):
                return bytes(message.get("body", b"")[: max_bytes + 1])
            return await _read_parts(message, receive, max_bytes)
    except TimeoutError:
        raise BodyTimeout from None


async def _read_parts(message: AsgiMessage, receive: Receive, max_bytes: int) -> bytes:
    body, received_bytes = bytearray(), 0
    while message["type"] != "http.disconnect":
        part = message.get("body", b"")
        received_bytes += len(part)
        body += part[: max_bytes + 1 - len(body)]
        if not message.get("more_body") or received_bytes > MAX_DRAINED_BYTES:
            return bytes(body)
        message = await receive()
    raise ClientDisconnected


def limit_body(application: AsgiApplication, *, limit: int) -> AsgiApplication:
    """Read the body before the application does, and pass it on with its length."""

    async def checked(scope: dict[str, Any], receive: Receive, send: Any) -> None:
        if scope["type"] != "http":
            await application(scope, receive, send)
            return
        try:
            body = await read_body(receive, max_bytes=limit)
        except BodyTimeout as error:
            await _refuse_late_body(scope, send, str(error))
        except ClientDisconnected:
            return
        else:
            await application(_with_content_length(scope, len(body)), _replay_body(body, receive), send)

    return checked


async def _refuse_late_body(scope: dict[str, Any], send: Any, message: str) -> None:
    """Answer with the API's error envelope and close the connection: the rest of the body is not a new request."""
    request_id = parse_uuid(dict(scope["headers"]).get(b"x-request-id", b"").decode("latin-1")) or uuid7()
    body = json.dumps({
        "error_code": "InvalidParameters",
        "message": message,
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


def _with_content_length(scope: dict[str, Any], length: int) -> dict[str, Any]:
    headers = [(name, value) for name, value in scope["headers"] if name != b"content-length"]
    return {**scope, "headers": [*headers, (b"content-length", b"%d" % length)] if length else headers}


def _replay_body(body: bytes, receive: Receive) -> Receive:
    messages = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> AsgiMessage:
        return messages.pop() if messages else await receive()

    return replay


async def capture_response(application: AsgiApplication, scope: dict[str, Any], body: bytes = b"") -> list[AsgiMessage]:
    """The application's response messages for a request with this body, collected in memory. The caller must detect a
    client that disconnects."""
    messages: list[AsgiMessage] = []

    async def keep(message: AsgiMessage) -> None:
        messages.append(message)

    await application(scope, _replay_body(body, _wait_forever), keep)
    return messages


async def _wait_forever() -> AsgiMessage:
    await asyncio.Event().wait()
    raise AssertionError  # the event is never set
