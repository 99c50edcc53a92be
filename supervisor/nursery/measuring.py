"""What the processes of one run use, from the kernel's own books."""

import ctypes
import itertools
import os
import resource
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from supervisor.nursery import tree

TICKS = os.sysconf("SC_CLK_TCK")
PAGE = resource.getpagesize()
#: What the kernel counts blocks in, whatever the disk.
BLOCK = 512

#: How many processes that were seen no more are known still, should they have been overlooked once.
KNOWN = 256

Figures = dict[str, float]


def look_as_who_runs(pid: int) -> None:
    """Or root itself is shown less where it was given no right to trace, as containers give none.

    The account for files alone: under it this process can be neither sent signals nor looked into.
    """
    with suppress(OSError):
        whose, libc = Path(f"/proc/{pid}").stat(), ctypes.CDLL(None)
        libc.setfsgid(whose.st_gid)
        libc.setfsuid(whose.st_uid)


def ended() -> Figures:
    """Of everything that this process has reaped, and that those had."""
    books = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "cpu": books.ru_utime + books.ru_stime,
        "memory": books.ru_maxrss * 1024,
        "read": books.ru_inblock * BLOCK,
        "written": books.ru_oublock * BLOCK,
    }


def measure(pids: Iterable[int]) -> Figures:
    """Of these processes now, and of what has ended; parents first, or what ends meanwhile would count twice."""
    sums: Figures = {"processes": 0, **ended(), "memory": 0}
    for pid in pids:
        fields = tree.stat(pid)
        if not fields:
            continue
        sums["processes"] += 1
        sums["memory"] += int(fields[21]) * PAGE or resident(pid)
        # Its own two, and those of the children that it has waited for.
        sums["cpu"] += sum(int(ticks) for ticks in fields[11:15]) / TICKS
        _add_disk(sums, pid)
    return sums


class Tally:
    """CPU time of every process that was looked at, whoever waits for it: nobody may, and then it is in no books."""

    def __init__(self) -> None:
        self._ticks = 0
        #: By number and start, for numbers are given again; those that were seen last at the end.
        self._seen: dict[tuple[int, bytes], int] = {}

    @property
    def seconds(self) -> float:
        return self._ticks / TICKS

    def look(self, pids: Sequence[int]) -> None:
        for pid in pids:
            if fields := tree.stat(pid):
                self._add((pid, fields[19]), int(fields[11]) + int(fields[12]))
        for key in [*itertools.islice(self._seen, max(0, len(self._seen) - len(pids) - KNOWN))]:
            del self._seen[key]

    def _add(self, key: tuple[int, bytes], ticks: int) -> None:
        before = self._seen.pop(key, 0)
        self._seen[key] = max(before, ticks)
        self._ticks += self._seen[key] - before


def resident(pid: int) -> int:
    """Bytes that it has in memory, alone or with others."""
    pages = _resident_pages(f"/proc/{pid}")
    if pages == 0:  # it has ended; or its first thread has, and others go on
        pages = max(
            (_resident_pages(f"/proc/{pid}/task/{thread}") for thread in tree.numbers(f"/proc/{pid}/task")), default=0
        )
    return pages * PAGE


def _resident_pages(place: str) -> int:
    fields = tree.read(f"{place}/statm").split()
    return int(fields[1]) if fields else 0


def share(pid: int) -> int:
    """The same, but each page divided by how many have it; whoever hides that is charged with all."""
    for line in tree.read(f"/proc/{pid}/smaps_rollup").splitlines():
        if line.startswith(b"Pss:"):
            return int(line.split()[1]) * 1024
    return resident(pid)


def _add_disk(sums: Figures, pid: int) -> None:
    for entry in tree.read(f"/proc/{pid}/io").splitlines():
        name, _, value = entry.partition(b": ")
        if name in {b"read_bytes", b"write_bytes"}:
            sums["read" if name == b"read_bytes" else "written"] += int(value)
