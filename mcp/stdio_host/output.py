"""Splits standard output into lines; keeps the last lines of standard error."""

import json
from collections import deque
from collections.abc import Iterator
from typing import Any

import orjson

from mcp.protocol.jsonrpc import Message

#: A result of 16 MiB and its envelope.
MAX_LINE_BYTES = (16 << 20) + (256 << 10)


class LineTooLong(Exception):
    """A line is longer than `MAX_LINE_BYTES`."""


class LineSplitter:
    """Splits chunks of standard output into lines. A line that is too long raises `LineTooLong`."""

    def __init__(self, max_bytes: int = MAX_LINE_BYTES) -> None:
        self._max_bytes = max_bytes
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Yield the lines that this chunk completes."""
        *line_ends, rest = chunk.split(b"\n")
        for line_end in line_ends:
            self._append(line_end)
            line = b"".join(self._parts)
            self._parts, self._size = [], 0
            yield line
        if rest:
            self._append(rest)

    def _append(self, part: bytes) -> None:
        self._size += len(part)
        if self._size > self._max_bytes:
            raise LineTooLong
        self._parts.append(part)


def parse_messages(line: bytes) -> list[Message]:
    """Return the JSON-RPC messages of a line, several for a batch; an empty list for anything else."""
    value = _parse_json(line)
    candidates = value if isinstance(value, list) else [value]
    messages = [message for message in candidates if isinstance(message, dict) and message.get("jsonrpc") == "2.0"]
    return messages if len(messages) == len(candidates) else []


def _parse_json(line: bytes) -> Any:
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError:
        return _parse_repaired(line) if line.lstrip().startswith(b"{") else None


def _parse_repaired(line: bytes) -> Any:
    """Parse a line with invalid Unicode. Half an emoji in a truncated text must not lose the whole answer."""
    try:
        value = json.loads(line.decode("utf-8", "replace"))
        return orjson.loads(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None


MAX_STDERR_LINES = 200
MAX_STDERR_LINE_BYTES = 4000
CUT_MARK = " … (cut)"


class StderrBuffer:
    """The last lines that a server wrote to standard error, across restarts of its process."""

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
