"""Splits a server's standard output into lines, one message each."""

import json
from collections.abc import Iterator
from typing import Any

import orjson

from mcp.protocol.jsonrpc import Message

#: A result of 16 MiB and its envelope.
MAX_LINE_BYTES = (16 << 20) + (256 << 10)


class LineTooLong(Exception):
    """A line is longer than `MAX_LINE_BYTES`."""


class LineSplitter:
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
