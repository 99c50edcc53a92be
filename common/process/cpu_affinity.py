"""Pins all threads of a process to one CPU.

The threads of a process share one interpreter lock. On two CPUs, each release of the lock wakes a thread that sleeps on
the other CPU, which costs as much as most of the work between releases. The kernel knows which CPU has free time but
spreads threads. So all threads are unpinned briefly at intervals, then pinned to the CPU of the event loop's thread.
"""

import asyncio
import os
import threading
from contextlib import suppress
from pathlib import Path

#: The unpinned time is long enough for the kernel to move a busy thread to a CPU with free time.
PINNING_INTERVAL, UNPINNED_SECONDS = 5.0, 0.02
THREADS_DIRECTORY = Path("/proc/self/task")
#: Index of the field `processor` in a `stat` file, counted after the name: the CPU on which the thread ran last.
STAT_PROCESSOR_FIELD = 36


class CpuPinner:
    """Pins the threads of this process at intervals, within the CPUs that the process may use."""

    def __init__(self) -> None:
        self._allowed = self._pinned = set[int]()

    async def run(self) -> None:
        """Pin repeatedly for the life of the process. Runs in the thread of the event loop, which serves requests."""
        while THREADS_DIRECTORY.exists():
            # The allowed CPUs can change at run time. If a pinning call fails, the kernel chooses until the next round.
            with suppress(OSError):
                self._read_allowed_cpus()
                if len(self._allowed) > 1:
                    await self._pin_to_current_cpu()
            await asyncio.sleep(PINNING_INTERVAL)

    def _read_allowed_cpus(self) -> None:
        """If the affinity is not the one set here, another program has set it: these are the allowed CPUs."""
        affinity = os.sched_getaffinity(0)
        if affinity != self._pinned:
            self._allowed = affinity

    async def _pin_to_current_cpu(self) -> None:
        pin_threads(self._allowed)
        await asyncio.sleep(UNPINNED_SECONDS)
        self._pinned = {get_current_cpu()}
        pin_threads(self._pinned)


def get_allowed_cpus() -> set[int]:
    """The CPUs on which this process may run; empty on systems without /proc."""
    return os.sched_getaffinity(0) if THREADS_DIRECTORY.exists() else set()


def pin_threads(cpus: set[int]) -> None:
    """Pin each existing thread; a thread that starts later inherits the affinity of the thread that starts it."""
    for thread in THREADS_DIRECTORY.iterdir():
        with suppress(ProcessLookupError):
            os.sched_setaffinity(int(thread.name), cpus)


def get_current_cpu() -> int:
    stat_line = (THREADS_DIRECTORY / str(threading.get_native_id()) / "stat").read_text()
    return int(stat_line.rpartition(")")[2].split()[STAT_PROCESSOR_FIELD])
