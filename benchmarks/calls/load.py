"""Clients that call over connections that stay open, check every reply, and time it: a process of its own.

Each line of its input is a job as JSON, each line of its output what came of it:

    {"ports": [N, ...], "request": "...", "expect": "...", "connections": N, "warm": seconds, "seconds": seconds}

`request` is what goes over the wire and `expect` what must be in the body of the reply, both with MARK in the place of
a number of the same length, which is another for every call. With `to_the_end`, replies count that come when the time
is up.
"""

import asyncio
import json
import statistics
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import uvloop

MARK = "@@@@@@@@@@@@"
#: How long a reply may take once nothing more is sent.
PATIENCE = 15.0
NUMBERS = count(1)


@dataclass
class Job:
    ports: list[int]
    request: str
    expect: str
    connections: int
    warm: float
    seconds: float
    to_the_end: bool = False
    calls: int = 0
    good: int = 0
    #: Seconds that each reply took which came after the warm-up.
    took: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    counts_from: float = 0.0
    ends: float = 0.0

    def __post_init__(self) -> None:
        self.parts = [part.encode() for part in self.request.split(MARK)]
        self.expected = [part.encode() for part in self.expect.split(MARK)]

    async def run(self) -> dict[str, Any]:
        self.counts_from = time.perf_counter() + self.warm
        self.ends = self.counts_from + self.seconds
        lines = [Line(self) for _ in range(self.connections)]
        await asyncio.gather(*(line.start(self.ports[place % len(self.ports)]) for place, line in enumerate(lines)))
        with suppress(TimeoutError):
            async with asyncio.timeout(self.warm + self.seconds + PATIENCE):
                await asyncio.gather(*(line.ended for line in lines))
        for line in lines:
            line.close()
        return self.said()

    def said(self) -> dict[str, Any]:
        cuts = statistics.quantiles(self.took, n=100) if len(self.took) > 1 else [0.0] * 99
        percentiles = {f"p{part}_ms": round(cuts[part - 1] * 1000, 3) for part in (50, 95, 99)}
        wrong = self.calls - self.good
        rate = round(len(self.took) / self.seconds, 1)
        return {"calls": self.calls, "errors": wrong, "first_errors": self.errors[:3], "rate": rate, **percentiles}


class Line(asyncio.Protocol):
    """One connection: the next call goes out when the reply to the one before is in."""

    #: uvloop's, which is no asyncio.Transport by class.
    transport: Any = None

    def __init__(self, job: Job) -> None:
        self.job, self.buffer, self.waits = job, b"", False
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def start(self, port: int) -> None:
        try:
            await asyncio.get_running_loop().create_connection(lambda: self, "127.0.0.1", port)
        except OSError as error:
            self.job.calls += 1
            self.job.errors.append(f"There was no connection: {error}")
            self.finish()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.send()

    def send(self) -> None:
        if time.perf_counter() >= self.job.ends:
            self.finish()
            return
        number = b"%012d" % next(NUMBERS)
        self.wanted = number.join(self.job.expected)
        self.job.calls += 1
        self.buffer, self.waits = b"", True
        self.sent = time.perf_counter()
        self.transport.write(number.join(self.job.parts))

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        head, parted, body = self.buffer.partition(b"\r\n\r\n")
        if not parted or not complete(head.lower(), body):
            return
        now = time.perf_counter()
        self.waits = False
        if self.sent >= self.job.counts_from and (self.job.to_the_end or now <= self.job.ends):
            self.job.took.append(now - self.sent)
        if head.startswith(b"HTTP/1.1 200") and self.wanted in body:
            self.job.good += 1
        else:
            self.job.errors.append(self.buffer[:600].decode(errors="replace"))
        self.send()

    def connection_lost(self, error: Exception | None) -> None:
        if self.waits:
            self.job.errors.append(f"The connection was lost in the middle of a call: {error}")
        elif not self.ended.done():
            self.job.errors.append("The server closed a connection that was to stay open.")
        self.finish()

    def finish(self) -> None:
        if not self.ended.done():
            self.ended.set_result(None)

    def close(self) -> None:
        if not self.ended.done():
            self.job.errors.append("A call had no reply when the time was up.")
            self.waits = False
            self.finish()
        if self.transport is not None:
            self.transport.abort()


def complete(head: bytes, body: bytes) -> bool:
    _, given, length = head.partition(b"\r\ncontent-length:")
    if given:
        return len(body) >= int(length.partition(b"\r\n")[0])
    return body.endswith(b"0\r\n\r\n")


def main() -> None:
    for line in sys.stdin:
        print(json.dumps(uvloop.run(Job(**json.loads(line)).run())), flush=True)


if __name__ == "__main__":
    main()
