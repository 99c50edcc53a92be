"""Server-sent events from chunks of bytes, wherever a chunk ends: in a line, in a character, between CR and LF."""

from collections.abc import Iterator
from dataclasses import dataclass

from mcp.protocol.errors import UpstreamFault


@dataclass(frozen=True, slots=True)
class ServerSentEvent:
    #: Bytes: JSON is read from them at once, and that reading checks the UTF-8.
    data: bytes
    name: str = "message"
    id: str = ""


class EventStreamParser:
    """Fed with chunks, gives the events that became whole. Lines are cut as bytes, so no character is."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._size = 0
        self._line: list[bytes] = []
        self._after_cr = False
        self._first = True
        self._name = ""
        self._data: list[bytes] = []
        self._id = ""
        #: The last id seen, to take the stream up again from there.
        self.last_id = ""
        #: How long to wait before that, in seconds; None where the server did not say.
        self.retry: float | None = None

    def continue_stream(self) -> "EventStreamParser":
        """For the stream that goes on where this one ended."""
        found = EventStreamParser(self._limit)
        found.last_id = found._id = self.last_id
        found.retry = self.retry
        return found

    def feed(self, chunk: bytes) -> Iterator[ServerSentEvent]:
        if self._after_cr and chunk.startswith(b"\n"):
            chunk = chunk[1:]
        self._after_cr = chunk.endswith(b"\r") if chunk else self._after_cr
        # bytes.splitlines ends lines at LF, CR and CR LF alone, as event streams do.
        for part in chunk.splitlines(keepends=True):
            self._count_bytes(len(part))
            self._line.append(part)
            if part.endswith((b"\n", b"\r")):
                line = b"".join(self._line).rstrip(b"\r\n")
                self._line.clear()
                if (event := self._parse_line(line)) is not None:
                    yield event

    def _count_bytes(self, by: int) -> None:
        self._size += by
        if self._size > self._limit:
            raise UpstreamFault(
                "too_large", f"The server sent an event of more than {self._limit >> 20} MiB.", sent=True
            )

    def _parse_line(self, line: bytes) -> ServerSentEvent | None:
        if self._first:
            self._first = False
            line = line.removeprefix(b"\xef\xbb\xbf")
        if not line:
            return self._dispatch()
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            self._data.append(value)
        elif field == b"event":
            self._name = value.decode("utf-8", "replace")
        elif field == b"id" and b"\0" not in value:
            self._id = value.decode("utf-8", "replace")
        elif field == b"retry" and value.isdigit():
            self.retry = int(value[:9]) / 1000
        return None

    def _dispatch(self) -> ServerSentEvent | None:
        data, name = self._data, self._name
        self._data, self._name, self._size = [], "", 0
        # Only now: an event that is cut off is to be sent again.
        self.last_id = self._id
        if not any(data):
            return None
        return ServerSentEvent(b"\n".join(data), name or "message", self.last_id)
