"""What an agent that talks says: by the line, redacted, and no more of it than a session holds."""

import codecs

from common.redaction import Redactor, StreamRedactor
from supervisor import transcripts
from supervisor.runner.capture import ITS_PICTURE, NUL

CUT = " …"


class Lines:
    """`take` is called by the loop and only keeps; what reads and redacts is for another thread."""

    def __init__(self, secrets: frozenset[str]) -> None:
        self._redactor = StreamRedactor(Redactor(secret_values=secrets))
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._raw: list[bytes] = []
        self._size = 0
        #: The beginning of a line whose end has not come.
        self._begun = ""

    def take(self, data: bytes) -> None:
        fits = data[: max(transcripts.MOST_BYTES - self._size, 0)]
        self._size += len(data)
        if fits:
            self._raw.append(fits)

    @property
    def overflows(self) -> bool:
        return self._size > transcripts.MOST_BYTES

    def said(self, *, last: bool = False) -> list[str]:
        """The lines that were not handed out before; at the end, one that was only begun too."""
        raw, self._raw = self._raw, []
        text = self._redacted(b"".join(raw), last=last)
        # What is made of nothing but line ends would be millions of them.
        *whole, begun = (self._begun + text).split("\n", transcripts.MOST_MESSAGES)
        self._begun = begun[: transcripts.LONGEST + 1]
        if last and self._begun:
            whole.append(self._begun)
        return [_cut(line.removesuffix("\r")) for line in whole]

    def _redacted(self, data: bytes, *, last: bool) -> str:
        text = self._decoder.decode(data, final=last).replace(NUL, ITS_PICTURE)
        return self._redactor.feed(text) + (self._redactor.flush() if last else "")


def _cut(line: str) -> str:
    data = line.encode()
    if len(data) <= transcripts.LONGEST:
        return line
    return data[: transcripts.LONGEST - len(CUT.encode())].decode(errors="ignore") + CUT
