"""What the processes of one run use, from the kernel's own books."""

import os
import resource
from collections.abc import Iterable

from supervisor.nursery import tree

TICKS = os.sysconf("SC_CLK_TCK")
PAGE = resource.getpagesize()
#: What the kernel counts blocks in, whatever the disk.
BLOCK = 512

Figures = dict[str, float]


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
        sums["memory"] += int(fields[21]) * PAGE
        # Its own two, and those of the children that it has waited for.
        sums["cpu"] += sum(int(ticks) for ticks in fields[11:15]) / TICKS
        _add_disk(sums, pid)
    return sums


def _add_disk(sums: Figures, pid: int) -> None:
    for entry in tree.read(f"/proc/{pid}/io").splitlines():
        name, _, value = entry.partition(b": ")
        if name in {b"read_bytes", b"write_bytes"}:
            sums["read" if name == b"read_bytes" else "written"] += int(value)
