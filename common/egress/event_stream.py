"""Parser of server-sent events. Chunks may end anywhere: inside a line or a character, or between CR and LF."""

from collections.abc import Iterator
from dataclasses import dataclass

from common.errors import PayloadTooLarge


@dataclass(frozen=True, slots=True)
class ServerSentEvent:
    """One event of a stream. The lines of its data are joined."""

    #: Bytes, because the JSON decoder reads them directly and validates the UTF-8.
    data: bytes
    name: str = "message"
    id: str = ""


class EventStreamParser:
    """Accepts chunks of bytes and yields complete events. It splits lines as bytes, so it never splits a character."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._size = 0
        self._line: list[bytes] = []
        self._after_cr = False
        self._first = True
        self._name = ""
        self._data: list[bytes] = []
        self._id = ""
        #: The id of the last event, needed to resume the stream.
        self.last_id = ""
        #: Seconds to wait before resuming, or None if the server did not set it.
        self.retry: float | None = None

    def continue_stream(self) -> "EventStreamParser":
        """Return a parser for the stream that resumes this one."""
        parser = EventStreamParser(self._limit)
        parser.last_id = parser._id = self.last_id
        parser.retry = self.retry
        return parser

    def feed(self, chunk: bytes) -> Iterator[ServerSentEvent]:
        """Yield the events that are complete with this chunk. Raise PayloadTooLarge for one beyond the limit."""
        if self._after_cr and chunk.startswith(b"\n"):
            chunk = chunk[1:]
        self._after_cr = chunk.endswith(b"\r") if chunk else self._after_cr
        # bytes.splitlines splits only at LF, CR and CR LF, as the event stream format requires.
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
            raise PayloadTooLarge(self._limit)

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
        # Set only here, so that the server sends an incomplete event again.
        self.last_id = self._id
        if not any(data):
            return None
        return ServerSentEvent(b"\n".join(data), name or "message", self.last_id)
