"""The body of a request: it knows whether it has left, and does not leave for nobody."""

import select

from aiohttp.abc import AbstractStreamWriter
from aiohttp.payload import Payload

#: The other side has closed, as far as the system can tell without reading.
POLL_HANGUP = getattr(select, "POLLRDHUP", 0)


class SentFlag:
    """Whether a request's bytes began to leave: after that nobody knows what the server did with it."""

    __slots__ = ("is_set",)

    def __init__(self) -> None:
        self.is_set = False


class TrackedBody(Payload):
    """A body that notes when it goes out, and does not go out to a server that has hung up already.

    A server that ends an idle connection at the moment it is used again would leave a call whose effect nobody knows.
    Its goodbye is mostly here before the loop has looked at it: then nothing is sent, and the call may have another
    connection. The head waits for the body, so until here no byte of the request has left."""

    _autoclose = True
    connection_was_closed = False

    def __init__(self, raw: bytes, sent: SentFlag) -> None:
        super().__init__(raw, content_type="application/json")
        self._size = len(raw)
        self._sent = sent

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        return bytes(self._value).decode(encoding, errors)

    async def write(self, writer: AbstractStreamWriter) -> None:
        await self.write_with_length(writer, None)

    async def write_with_length(self, writer: AbstractStreamWriter, content_length: int | None) -> None:
        if _is_connection_closed(writer):
            self.connection_was_closed = True
            raise ConnectionResetError
        self._sent.is_set = True
        await writer.write(self._value[:content_length])


def _is_connection_closed(writer: AbstractStreamWriter) -> bool:
    """Asked of the system, which knows before the event loop. What it may have sent before is of no interest."""
    transport = writer.transport
    connected = transport.get_extra_info("socket") if transport is not None else None
    if connected is None or (number := connected.fileno()) < 0:
        return True
    asked = select.poll()
    asked.register(number, POLL_HANGUP)
    return bool(asked.poll(0))
