"""One caller that sends thousands of calls at once, or one that sends one after the other: a process of its own.

Its input is a job as JSON, its output what came of it:

    {"port": N, "request": "...", "calls": N, "rounds": N}      so many calls at once, as often as `rounds` says
    {"port": N, "request": "...", "until": "path"}              one after the other, until the file is there
"""

import asyncio
import json
import sys
import time
from collections import Counter
from itertools import count
from pathlib import Path
from typing import Any, cast

import uvloop

from benchmarks.calls.load import MARK

NUMBERS = count(1)
PATIENCE = 60.0
#: Between two calls of the one that is measured, so that it is no load itself.
PAUSE = 0.002


class Line(asyncio.Protocol):
    """A connection that stays open, and one call on it at a time."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self._reply: asyncio.Future[int] | None = None
        self._read = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's are none of asyncio's own classes.
        self.transport = cast("asyncio.Transport", transport)

    def call(self, request: str) -> "asyncio.Future[int]":
        """The status of the reply; 0 when the connection was closed instead."""
        self._reply, self._read = asyncio.get_running_loop().create_future(), b""
        if self.transport is None or self.transport.is_closing():
            self._reply.set_result(0)
        else:
            self.transport.write(request.replace(MARK, f"{next(NUMBERS):0{len(MARK)}d}").encode())
        return self._reply

    def data_received(self, data: bytes) -> None:
        self._read += data
        head, ended, body = self._read.partition(b"\r\n\r\n")
        if not ended:
            return
        lengths = [line.split(b":")[1] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
        if lengths and len(body) >= int(lengths[0]):
            self._end(int(head.split(b" ", 2)[1]))

    def connection_lost(self, _error: Exception | None) -> None:
        self._end(0)

    def _end(self, status: int) -> None:
        if self._reply is not None and not self._reply.done():
            self._reply.set_result(status)


async def connected(port: int) -> Line:
    loop = asyncio.get_running_loop()
    _, line = await loop.create_connection(Line, "127.0.0.1", port)
    return line


async def flood(port: int, request: str, calls: int, rounds: int) -> dict[str, Any]:
    lines: list[Line] = []
    while len(lines) < calls:
        # As many as the listener's queue holds: connecting is not what is measured.
        lines += await asyncio.gather(*(connected(port) for _ in range(min(1000, calls - len(lines)))))
    print("ready", flush=True)
    sys.stdin.readline()
    began, statuses = time.perf_counter(), Counter[str]()
    for _ in range(rounds):
        async with asyncio.timeout(PATIENCE):
            statuses.update(map(str, await asyncio.gather(*(line.call(request) for line in lines))))
    return {"seconds": round(time.perf_counter() - began, 3), "statuses": dict(statuses)}


async def one_by_one(port: int, request: str, until: Path) -> dict[str, Any]:
    line, took, statuses = await connected(port), [], Counter[str]()
    while not until.exists():
        began = time.perf_counter()
        async with asyncio.timeout(PATIENCE):
            statuses[str(await line.call(request))] += 1
        took.append(round((time.perf_counter() - began) * 1000, 3))
        await asyncio.sleep(PAUSE)
    return {"took_ms": took, "statuses": dict(statuses)}


def main() -> None:
    job = json.loads(sys.stdin.readline())
    if "until" in job:
        work = one_by_one(job["port"], job["request"], Path(job["until"]))
    else:
        work = flood(job["port"], job["request"], job["calls"], job["rounds"])
    print(json.dumps(uvloop.run(work)), flush=True)


if __name__ == "__main__":
    main()
