"""Messages between Gatehouse processes on a socket: four bytes of length, then JSON."""

import asyncio
import json

import orjson

from mcp.protocol import jsonrpc
from mcp.protocol.jsonrpc import Message

MAX_FRAME_BYTES = 64 << 20
#: Flag in the length: decode with `json`, because `orjson` turns integers beyond 64 bits into floats.
EXACT_FLAG = 1 << 31


class BadFrame(Exception):
    """The received bytes are not a valid frame. The rest of the stream cannot be trusted."""


def pack_frame(message: Message) -> bytes:
    try:
        body, flag = orjson.dumps(message), 0
    except TypeError:
        body, flag = jsonrpc.encode(message), EXACT_FLAG
    if len(body) > MAX_FRAME_BYTES:
        raise BadFrame(f"A message of {len(body)} bytes is too long.")
    return (len(body) | flag).to_bytes(4, "big") + body


async def read_frame(reader: asyncio.StreamReader) -> Message | None:
    """Return the next message, or None if the peer closed the connection."""
    try:
        prefix = int.from_bytes(await reader.readexactly(4), "big")
        length = prefix & ~EXACT_FLAG
        if length > MAX_FRAME_BYTES:
            raise BadFrame(f"A message of {length} bytes is too long.")
        message = (json if prefix & EXACT_FLAG else orjson).loads(await reader.readexactly(length))
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    except (ValueError, RecursionError) as error:
        raise BadFrame("A message is not JSON.") from error
    if not isinstance(message, dict):
        raise BadFrame("A message is not an object.")
    return message
