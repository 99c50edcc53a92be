"""A request body that records whether bytes were sent, and is not sent on a closed connection."""

import select

from aiohttp.abc import AbstractStreamWriter
from aiohttp.payload import Payload

#: Poll event: the peer has closed its side of the connection. Needs no read.
POLL_HANGUP = getattr(select, "POLLRDHUP", 0)


class SentFlag:
    """Whether sending of a request has started. From then on its effect on the server is unknown."""

    __slots__ = ("is_set",)

    def __init__(self) -> None:
        self.is_set = False


class TrackedBody(Payload):
    """A body that sets its flag when it is sent, and is not sent if the server has closed the connection.

    If a server closes an idle connection just when it is reused, the effect of the call is unknown. Mostly the close
    has arrived but the event loop has not processed it: then nothing is sent, and the call may use another connection.
    The request's head is sent together with the body, so before `write` no byte of the request has been sent."""

    _autoclose = True
    connection_was_closed = False

    def __init__(self, raw: bytes, sent_flag: SentFlag) -> None:
        super().__init__(raw, content_type="application/json")
        self._size = len(raw)
        self._sent_flag = sent_flag

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        return bytes(self._value).decode(encoding, errors)

    async def write(self, writer: AbstractStreamWriter) -> None:
        await self.write_with_length(writer, None)

    async def write_with_length(self, writer: AbstractStreamWriter, content_length: int | None) -> None:
        if _is_connection_closed(writer):
            self.connection_was_closed = True
            raise ConnectionResetError
        self._sent_flag.is_set = True
        await writer.write(self._value[:content_length])


def _is_connection_closed(writer: AbstractStreamWriter) -> bool:
    """Ask the operating system, which knows before the event loop. Unread data from the server is ignored."""
    transport = writer.transport
    connection_socket = transport.get_extra_info("socket") if transport is not None else None
    if connection_socket is None or (descriptor := connection_socket.fileno()) < 0:
        return True
    poller = select.poll()
    poller.register(descriptor, POLL_HANGUP)
    return bool(poller.poll(0))
