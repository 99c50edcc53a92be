"""Keeps the last lines of a server's standard error, whole, so that secrets in them can be found and redacted."""

from collections import deque

MAX_STDERR_LINES = 200
MAX_STDERR_LINE_BYTES = 4000
CUT_MARK = " … (cut)"


class StderrBuffer:
    def __init__(self) -> None:
        self._lines: deque[str] = deque(maxlen=MAX_STDERR_LINES)
        self._partial_line = b""
        self._dropping = False
        self.total_bytes = 0

    def feed(self, chunk: bytes) -> None:
        self.total_bytes += len(chunk)
        *lines, rest = (self._partial_line + chunk).split(b"\n")
        if lines and self._dropping:
            lines, self._dropping = lines[1:], False
        # Only the last lines are kept, so the others need not be decoded.
        for line in lines[-MAX_STDERR_LINES:]:
            self._add(line)
        if not self._dropping and len(rest) > MAX_STDERR_LINE_BYTES:
            self._add(rest)
            self._dropping = True
        self._partial_line = b"" if self._dropping else rest

    def lines(self) -> list[str]:
        return [*self._lines, *([_decode_line(self._partial_line)] if self._partial_line else [])]

    def _add(self, line: bytes) -> None:
        if line.strip():
            self._lines.append(_decode_line(line.rstrip(b"\r")))


def _decode_line(line: bytes) -> str:
    if len(line) <= MAX_STDERR_LINE_BYTES:
        return line.decode("utf-8", "replace")
    # Cut between words, because redaction would not recognize half a secret.
    return line[:MAX_STDERR_LINE_BYTES].decode("utf-8", "replace").rpartition(" ")[0] + CUT_MARK
