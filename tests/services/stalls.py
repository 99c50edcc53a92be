"""How long the machine itself stood still, for tests that measure how long the product takes to answer."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

INTERVAL = 0.02


class StallMeter:
    """Notes each pause of a thread that does nothing but sleep. While it was paused, no process made progress."""

    def __init__(self) -> None:
        #: Start and end of each pause, on the monotonic clock.
        self.pauses: list[tuple[float, float]] = []
        self._stopped = threading.Event()

    def measure(self) -> None:
        before = time.monotonic()
        while not self._stopped.wait(INTERVAL):
            now = time.monotonic()
            if now - before > 2 * INTERVAL:
                self.pauses.append((before + INTERVAL, now))
            before = now

    def stop(self) -> None:
        self._stopped.set()

    def seconds_between(self, start: float, end: float) -> float:
        return sum(max(min(end, last) - max(start, first), 0.0) for first, last in self.pauses)


@contextmanager
def measured_stalls() -> Iterator[StallMeter]:
    meter = StallMeter()
    thread = threading.Thread(target=meter.measure, daemon=True)
    thread.start()
    try:
        yield meter
    finally:
        meter.stop()
        thread.join()
