"""What a server writes on its standard output: a message a line, however the chunks fall."""

import json
from collections.abc import Iterator
from typing import Any

import orjson

from mcp.protocol.jsonrpc import Message

#: A result of 16 MiB, and what stands around it.
LONGEST_LINE = (16 << 20) + (256 << 10)


class LineTooLong(Exception):
    """More than `LONGEST_LINE` without an end of line."""


class Splitter:
    def __init__(self, longest: int = LONGEST_LINE) -> None:
        self._longest = longest
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """The lines that this chunk completes."""
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            self._keep(end)
            line = b"".join(self._parts)
            self._parts, self._size = [], 0
            yield line
        if rest:
            self._keep(rest)

    def _keep(self, part: bytes) -> None:
        self._size += len(part)
        if self._size > self._longest:
            raise LineTooLong
        self._parts.append(part)


def messages(line: bytes) -> list[Message]:
    """The JSON-RPC messages of a line, several where a server batches; none when it is something else."""
    value = _json(line)
    found = value if isinstance(value, list) else [value]
    good = [one for one in found if isinstance(one, dict) and one.get("jsonrpc") == "2.0"]
    return good if len(good) == len(found) else []


def _json(line: bytes) -> Any:
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError:
        return _mended(line) if line.lstrip().startswith(b"{") else None


def _mended(line: bytes) -> Any:
    """Half an emoji, where a server cut a text by length, must not cost the caller the whole answer."""
    try:
        value = json.loads(line.decode("utf-8", "replace"))
        return orjson.loads(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
