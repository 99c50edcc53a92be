"""What a run may have at most, and whether it has more: its keeper asks at every look."""

import time
from collections.abc import Sequence
from typing import Any

from supervisor.nursery import measuring

#: How many times as long as a fair count took none other is made, and for how many seconds at most: it walks through
#: every page of every process.
REST, LONGEST_REST = 20, 1.0


class LimitWatch:
    """Of all its processes together. `exceeded` names the limit that was passed, and `used` says by what."""

    def __init__(self, processes: int, memory: int | None, cpu: float | None) -> None:
        self._processes = processes
        self._memory = memory
        self._cpu = cpu
        self._next_fair = 0.0
        self.exceeded = ""
        self.used: float = 0
        #: The most that its processes had at a look, in bytes; what they share counts for each.
        self.peak = 0

    def count(self, number: int) -> None:
        self._compare("processes", number, self._processes)

    def look(self, pids: Sequence[int]) -> None:
        """Cheap, as long as they have less even when each of them is charged with all that they share."""
        self.count(len(pids))
        if self._memory is None or self.exceeded:
            return
        resident = sum(measuring.resident(pid) for pid in pids)
        self.peak = max(self.peak, resident)
        if resident > self._memory and (begun := time.monotonic()) >= self._next_fair:
            self._compare("memory", sum(measuring.share(pid) for pid in pids), self._memory)
            ended = time.monotonic()
            self._next_fair = ended + min(REST * (ended - begun), LONGEST_REST)

    def spend(self, seconds: float) -> None:
        self._compare("cpu", seconds, self._cpu)

    def _compare(self, what: str, used: float, most: float | None) -> None:
        if most is not None and used > most and not self.exceeded:
            self.exceeded, self.used = what, used

    def said(self) -> dict[str, Any]:
        return {"exceeded": self.exceeded, "used": self.used}
