"""The processes below another one, as the kernel knows them: a new session or an emptied environment hides nothing."""

import os
import signal
import time
from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress

#: In how many seconds what was killed is looked at again.
SOON = 0.002


def read(path: str) -> bytes:
    """A file of /proc whole, or nothing when its process has gone or may not be looked at."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        parts = []
        while part := os.read(file, 65536):
            parts.append(part)
        return b"".join(parts)
    except OSError:  # it ended meanwhile
        return b""
    finally:
        os.close(file)


def numbers(directory: str) -> list[int]:
    try:
        with os.scandir(directory) as entries:
            return [int(entry.name) for entry in entries if entry.name.isdigit()]
    except OSError:
        return []


def stat(pid: int) -> list[bytes]:
    """The fields of its line from the state on: what stands before may hold blanks and brackets."""
    return read(f"/proc/{pid}/stat").rpartition(b")")[2].split()


#: Not every kernel is built to list the children of a process.
LISTED = os.access(f"/proc/self/task/{os.getpid()}/children", os.R_OK)


def children(pid: int) -> list[int]:
    if not LISTED:
        return _parents()[pid]
    threads = numbers(f"/proc/{pid}/task")
    return [int(child) for thread in threads for child in read(f"/proc/{pid}/task/{thread}/children").split()]


def below(*roots: int) -> list[int]:
    """Every process that descends from these, parents before their children; those that ended unmourned too."""
    found: list[int] = []
    every = None if LISTED else _parents()
    reached = [*roots]
    for pid in reached:
        new = children(pid) if every is None else every[pid]
        found += new
        reached += new
    return found


def _parents() -> defaultdict[int, list[int]]:
    every: defaultdict[int, list[int]] = defaultdict(list)
    for pid in numbers("/proc"):
        if fields := stat(pid):
            every[int(fields[1])].append(pid)
    return every


def send(number: signal.Signals, pids: Iterable[int]) -> None:
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def kill(*roots: int, sparing_roots: bool) -> set[int]:
    """Kill what descends from these, and them too unless spared; all is stopped first, until nothing multiplies."""
    doomed = set() if sparing_roots else {*roots}
    send(signal.SIGSTOP, doomed)
    while new := {*below(*roots)} - doomed:
        send(signal.SIGSTOP, new)
        doomed |= new
    send(signal.SIGKILL, doomed)
    return doomed


def clear() -> None:
    """Kill everything below this process, and wait until it has gone."""
    with suppress(ChildProcessError):
        while True:
            kill(os.getpid(), sparing_roots=True)
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
            time.sleep(SOON)
