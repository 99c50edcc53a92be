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
EVERY, MOMENT = 5.0, 0.02
TASKS = Path("/proc/self/task")
#: In `stat`, counted from behind the name: on which processor the thread ran last.
PROCESSOR = 36


class Processor:
    def __init__(self) -> None:
        self._allowed = self._kept = set[int]()

    async def keep(self) -> None:
        """For as long as the process serves, in the thread that does."""
        while TASKS.exists():
            # Which ones a process may use can change while it runs; until it may use these again, the kernel chooses.
            with suppress(OSError):
                self._look()
                if len(self._allowed) > 1:
                    await self._choose()
            await asyncio.sleep(EVERY)

    def _look(self) -> None:
        """Where somebody else has put us, that is where we may be."""
        now = os.sched_getaffinity(0)
        if now != self._kept:
            self._allowed = now

    async def _choose(self) -> None:
        put(self._allowed)
        await asyncio.sleep(MOMENT)
        self._kept = {current()}
        put(self._kept)


def allowed() -> set[int]:
    """Where this process may be; nothing where the system does not say."""
    return os.sched_getaffinity(0) if TASKS.exists() else set()


def put(processors: set[int]) -> None:
    """Each thread for itself; one that begins later is where the one is that begins it."""
    for thread in TASKS.iterdir():
        with suppress(ProcessLookupError):
            os.sched_setaffinity(int(thread.name), processors)


def current() -> int:
    said = (TASKS / str(threading.get_native_id()) / "stat").read_text()
    return int(said.rpartition(")")[2].split()[PROCESSOR])
