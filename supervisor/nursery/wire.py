"""Lines of JSON between a runner and the keepers of its agents. The standard library's alone: the program reads it."""

import json
from typing import Any

Word = dict[str, Any]


def line(**facts: Any) -> bytes:
    return json.dumps(facts).encode() + b"\n"


class Lines:
    """Cuts a stream into words; a line without its end is never one."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[Word]:
        *lines, self._rest = (self._rest + data).split(b"\n")
        return [json.loads(line) for line in lines]
