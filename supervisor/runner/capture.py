"""What a run writes: the beginning is kept, all of it is counted, nothing is stored that was not redacted."""

import codecs
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from django.utils import timezone

from common.redaction import Redactor, StreamRedactor
from supervisor.runner.words import Piece

#: Bytes of each stream.
MOST_KEPT = 1024 * 1024
#: Changes between the streams that one reading keeps in their order.
MOST_TURNS = 40
#: PostgreSQL's text cannot hold it.
NUL, ITS_PICTURE = "\0", "\N{SYMBOL FOR NULL}"


@dataclass
class _Stream:
    redactor: StreamRedactor
    total: int = 0
    kept: int = 0
    shown: list[str] = field(default_factory=list)
    decoder: codecs.IncrementalDecoder = field(default_factory=lambda: codecs.getincrementaldecoder("utf-8")("replace"))

    @property
    def truncated(self) -> bool:
        return self.total > self.kept


class Capture:
    """`take` is called by the loop and only counts and keeps; what reads and redacts is for other threads."""

    def __init__(self, secrets: frozenset[str]) -> None:
        redactor = Redactor(secret_values=secrets)
        self._streams = {name: _Stream(StreamRedactor(redactor)) for name in ("out", "err")}
        self._raw: list[tuple[str, bytes, datetime]] = []
        self._redactor = redactor
        self._reading = threading.Lock()
        self._ready: list[Piece] = []
        #: What of standard output was kept, as it came: for reading an answer out of it.
        self.answer = bytearray()

    def take(self, name: str, data: bytes) -> None:
        stream = self._streams[name]
        fits = data[: MOST_KEPT - stream.kept]
        stream.total += len(data)
        stream.kept += len(fits)
        if fits:
            self._raw.append((name, fits, timezone.now()))
            if name == "out":
                self.answer += fits

    @property
    def waiting(self) -> bool:
        return bool(self._raw or self._ready)

    def digest(self, *, last: bool = False) -> None:
        """Read and redact what came; at the end, what was held back too."""
        with self._reading:
            raw, self._raw = self._raw, []
            made = [Piece(name, self._feed(name, data), at) for name, data, at in _joined(raw)]
            if last:
                made += [Piece(name, self._flush(name), timezone.now()) for name in self._streams]
            for piece in made:
                if piece.text:
                    self._ready.append(piece)
                    self._streams[piece.stream].shown.append(piece.text)

    def pieces(self) -> list[Piece]:
        """What was not handed out before."""
        self.digest()
        with self._reading:
            ready, self._ready = self._ready, []
        return ready

    def text(self, name: str) -> str:
        return "".join(self._streams[name].shown)

    def total(self, name: str) -> int:
        return self._streams[name].total

    def truncated(self, name: str) -> bool:
        return self._streams[name].truncated

    def redacted(self, text: str) -> str:
        """Text that came another way than by the streams."""
        return self._redactor.redact_text(text).replace(NUL, ITS_PICTURE)

    def _feed(self, name: str, data: bytes) -> str:
        stream = self._streams[name]
        return stream.redactor.feed(stream.decoder.decode(data).replace(NUL, ITS_PICTURE))

    def _flush(self, name: str) -> str:
        stream = self._streams[name]
        rest = stream.decoder.decode(b"", final=True)
        return stream.redactor.feed(rest) + stream.redactor.flush()


def _joined(raw: Sequence[tuple[str, bytes, datetime]]) -> list[tuple[str, bytes, datetime]]:
    """Neighbours of one stream as one piece."""
    joined: list[tuple[str, bytes, datetime]] = []
    for name, data, at in raw:
        if joined and joined[-1][0] == name:
            joined[-1] = (name, joined[-1][1] + data, joined[-1][2])
        else:
            joined.append((name, data, at))
    return joined if len(joined) <= MOST_TURNS else _apart(joined)


def _apart(pieces: Sequence[tuple[str, bytes, datetime]]) -> list[tuple[str, bytes, datetime]]:
    """One piece for each stream: who alternates at every letter does not fill a table with rows."""
    first = {name: at for name, _, at in reversed(pieces)}
    whole = {name: b"".join(data for other, data, _ in pieces if other == name) for name in first}
    return [(name, data, first[name]) for name, data in whole.items()]
