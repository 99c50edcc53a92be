"""Measures how long the machine stood still, for tests with a limit on how long the product takes to answer.

Run as a program, it prints each pause. A process of its own has no interpreter lock to wait for, and one that only
sleeps is scheduled soon even on a busy machine, so what pauses it for long pauses every other process too.
"""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

INTERVAL = 0.02
#: Shorter pauses are those of a busy machine, and the limits of tests allow for them.
LEAST_PAUSE = 0.25


@dataclass
class Stalls:
    #: Start and end of each pause, on the monotonic clock, which all processes share. Known when the block has ended.
    pauses: list[tuple[float, float]] = field(default_factory=list)

    def seconds_between(self, start: float, end: float) -> float:
        return sum(max(min(end, last) - max(start, first), 0.0) for first, last in self.pauses)


@contextmanager
def measured_stalls() -> Iterator[Stalls]:
    stalls = Stalls()
    with subprocess.Popen([sys.executable, __file__], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        try:
            yield stalls
        finally:
            process.terminate()
            for line in process.stdout:
                start, end = map(float, line.split())
                stalls.pauses.append((start, end))


def print_pauses() -> None:
    print("ready", flush=True)
    before = time.monotonic()
    while True:
        time.sleep(INTERVAL)
        now = time.monotonic()
        if now - before > LEAST_PAUSE:
            print(before + INTERVAL, now, flush=True)
        before = now


if __name__ == "__main__":
    print_pauses()
