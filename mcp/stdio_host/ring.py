"""The last lines that a server wrote on its standard error, whole: a secret in them can then be found and covered."""

from collections import deque

MOST_LINES = 200
LONGEST_LINE = 4000
CUT = " … (cut)"


class Ring:
    def __init__(self) -> None:
        self._lines: deque[str] = deque(maxlen=MOST_LINES)
        self._open = b""
        self._dropping = False
        self.bytes_seen = 0

    def feed(self, chunk: bytes) -> None:
        self.bytes_seen += len(chunk)
        *ends, rest = (self._open + chunk).split(b"\n")
        if ends and self._dropping:
            ends, self._dropping = ends[1:], False
        # Of a flood only the last lines stay: the others need not be looked at.
        for end in ends[-MOST_LINES:]:
            self._add(end)
        if not self._dropping and len(rest) > LONGEST_LINE:
            self._add(rest)
            self._dropping = True
        self._open = b"" if self._dropping else rest

    def lines(self) -> list[str]:
        return [*self._lines, *([_text(self._open)] if self._open else [])]

    def _add(self, line: bytes) -> None:
        if line.strip():
            self._lines.append(_text(line.rstrip(b"\r")))


def _text(line: bytes) -> str:
    if len(line) <= LONGEST_LINE:
        return line.decode("utf-8", "replace")
    # Cut between words: half a secret is not known for one.
    return line[:LONGEST_LINE].decode("utf-8", "replace").rpartition(" ")[0] + CUT
