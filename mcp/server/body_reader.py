"""Reads request bodies into memory, with limits on size and time."""

import asyncio

from common.asgi.bodies import MAX_DRAINED_BYTES, Receive
from mcp.server.errors import ErrorResponse, http_error
from mcp.server.request_parser import MAX_BODY_BYTES

BODY_TIMEOUT_SECONDS = 30.0


class ClientDisconnected(Exception):
    """The client disconnected, so no response can be sent."""


async def read_body(receive: Receive, *, max_bytes: int = MAX_BODY_BYTES) -> bytes | ErrorResponse:
    """Read the body. Truncate a longer body to one byte more than the limit, so that the caller can refuse it."""
    try:
        async with asyncio.timeout(BODY_TIMEOUT_SECONDS):
            message = await receive()
            if message["type"] == "http.request" and not message.get("more_body"):
                return bytes(message.get("body", b"")[: max_bytes + 1])
            return await _read_rest(message, receive, max_bytes)
    except TimeoutError:
        return http_error(
            408, f"The body did not arrive within {BODY_TIMEOUT_SECONDS:.0f} seconds.", (b"connection", b"close")
        )


async def _read_rest(message: dict[str, object], receive: Receive, max_bytes: int) -> bytes:
    body, received_bytes = bytearray(), 0
    while message["type"] != "http.disconnect":
        part = message.get("body", b"")
        assert isinstance(part, bytes)  # required by ASGI
        received_bytes += len(part)
        body += part[: max_bytes + 1 - len(body)]
        if not message.get("more_body") or received_bytes > MAX_DRAINED_BYTES:
            return bytes(body)
        message = await receive()
    raise ClientDisconnected
