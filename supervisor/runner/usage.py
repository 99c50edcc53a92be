"""What a run uses over time, thinned out as it gets long."""

import time

from supervisor.nursery import MEGABYTE, Ending, Usage
from supervisor.runner.words import Measured

#: Samples that are kept; past it every other one goes.
MOST_SAMPLES = 240


class Meter:
    def __init__(self) -> None:
        self._begun = time.monotonic()
        self._last: Usage | None = None
        self._last_at = 0.0
        self._peak = self._processes = 0
        self._every, self._skipped = 1, 0
        self._samples: list[tuple[float, ...]] = []
        self._ending: Ending | None = None
        self.fresh = False

    def take(self, usage: Usage) -> None:
        at = time.monotonic() - self._begun
        self._peak = max(self._peak, usage.memory)
        self._processes = max(self._processes, usage.processes)
        self._skipped += 1
        if self._skipped >= self._every:
            self._keep(at, usage)
        self._last, self._last_at, self.fresh = usage, at, True

    def end(self, ending: Ending) -> None:
        self._ending = ending
        self._peak = max(self._peak, ending.peak_memory)

    def measured(self) -> Measured:
        """What is known by now."""
        self.fresh = False
        last, ending = self._last, self._ending
        return Measured(
            cpu=ending.cpu if ending else last.cpu if last else 0.0,
            peak_memory=self._peak,
            memory=last.memory if last else self._peak,
            read=ending.read if ending else last.read if last else 0,
            written=ending.written if ending else last.written if last else 0,
            processes=self._processes,
            samples=tuple(self._samples),
        )

    def _keep(self, at: float, usage: Usage) -> None:
        before = self._last.cpu if self._last else 0.0
        seconds = at - self._last_at
        cpu = 100 * max(usage.cpu - before, 0) / seconds if seconds > 0 else 0.0
        sizes = (usage.memory / MEGABYTE, usage.read / MEGABYTE, usage.written / MEGABYTE)
        self._samples.append((round(at, 2), round(cpu, 1), *(round(size, 2) for size in sizes)))
        self._skipped = 0
        if len(self._samples) > MOST_SAMPLES:
            self._samples, self._every = self._samples[::2], self._every * 2
