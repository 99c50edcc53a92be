"""A process with one interpreter keeps to one processor, whichever it is at the moment.

Its threads take turns at one interpreter. On two processors each turn ends in waking a thread that sleeps on the other,
which costs as much as what most turns are for. The kernel knows which processor has time, but spreads threads: so they
are let go for a moment now and then, and then all of them stay where it has put the one that serves.
"""

import asyncio
import os
import threading
from contextlib import suppress
from pathlib import Path

#: Long enough for a thread that has work to be put where there is time for it.
PINNING_INTERVAL, UNPINNED_SECONDS = 5.0, 0.02
THREADS_DIRECTORY = Path("/proc/self/task")
#: In `stat`, counted from behind the name: on which processor the thread ran last.
STAT_PROCESSOR_FIELD = 36


class CpuPinner:
    def __init__(self) -> None:
        self._allowed = self._kept = set[int]()

    async def run(self) -> None:
        """For as long as the process serves, in the thread that does."""
        while THREADS_DIRECTORY.exists():
            # Which ones a process may use can change while it runs; until it may use these again, the kernel chooses.
            with suppress(OSError):
                self._read_allowed_cpus()
                if len(self._allowed) > 1:
                    await self._pin_to_current_cpu()
            await asyncio.sleep(PINNING_INTERVAL)

    def _read_allowed_cpus(self) -> None:
        """Where somebody else has put us, that is where we may be."""
        now = os.sched_getaffinity(0)
        if now != self._kept:
            self._allowed = now

    async def _pin_to_current_cpu(self) -> None:
        pin_threads(self._allowed)
        await asyncio.sleep(UNPINNED_SECONDS)
        self._kept = {get_current_cpu()}
        pin_threads(self._kept)


def get_allowed_cpus() -> set[int]:
    """Where this process may be; nothing where the system does not say."""
    return os.sched_getaffinity(0) if THREADS_DIRECTORY.exists() else set()


def pin_threads(processors: set[int]) -> None:
    """Each thread for itself; one that begins later is where the one is that begins it."""
    for thread in THREADS_DIRECTORY.iterdir():
        with suppress(ProcessLookupError):
            os.sched_setaffinity(int(thread.name), processors)


def get_current_cpu() -> int:
    said = (THREADS_DIRECTORY / str(threading.get_native_id()) / "stat").read_text()
    return int(said.rpartition(")")[2].split()[STAT_PROCESSOR_FIELD])
