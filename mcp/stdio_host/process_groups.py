"""Which process groups are ours, on disk: what a dead owner left behind is found and ended by the next one.

The kernel ends a server with its owner, but not what the server has started itself. Such a process is known by the mark
in its environment, or by being in a group on record; a number that was given to somebody else since is left alone.
"""

import json
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil

from common.process.boot_id import read_boot_id
from mcp.stdio_host.environment import MARK_VARIABLE

#: The kernel counts starts in hundredths, and the clock they are reckoned from may be set a little.
START_TOLERANCE_SECONDS = 2.0
KILL_PASSES, PASS_PAUSE_SECONDS = 100, 0.02


class ProcessGroupJournal:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._started: dict[int, float] = {}

    def add(self, pid: int) -> None:
        with suppress(psutil.Error):
            self._started[pid] = psutil.Process(pid).create_time()
            self._write()

    def remove(self, pid: int) -> None:
        if self._started.pop(pid, None) is not None:
            self._write()

    def load_leftovers(self) -> dict[int, float]:
        """The groups that the owner before us noted, with the start of their leaders; none from before a reboot."""
        try:
            kept = json.loads(self._path.read_text())
            return (
                {int(pid): float(start) for pid, start in kept["groups"].items()}
                if kept["boot"] == read_boot_id()
                else {}
            )
        except (OSError, ValueError, KeyError, AttributeError, TypeError):
            return {}

    def _write(self) -> None:
        beside = self._path.with_name(f"{self._path.name}.new")
        beside.write_text(json.dumps({"boot": read_boot_id(), "groups": self._started}))
        beside.replace(self._path)


def kill_processes(mark: str, groups: dict[int, float] | None = None) -> int:
    """Kill whatever bears this mark or is of these groups; how many that were."""
    ended: set[int] = set()
    for _ in range(KILL_PASSES):
        found = list(_find_own_processes(mark, groups or {}))
        if not found:
            break
        for process in found:
            with suppress(psutil.Error):
                process.kill()
                ended.add(process.pid)
        # What was being forked meanwhile shows in the next pass. Reaping them is for their parents.
        time.sleep(PASS_PAUSE_SECONDS)
    return len(ended)


def _find_own_processes(mark: str, groups: dict[int, float]) -> Iterator[psutil.Process]:
    live = _drop_reused_pids(groups)
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if process.pid == os.getpid() or process.uids().real != os.getuid():
                continue
            if process.status() != psutil.STATUS_ZOMBIE and (_is_in_groups(process, live) or _has_mark(process, mark)):
                yield process


def _drop_reused_pids(groups: dict[int, float]) -> dict[int, float]:
    """Less those whose number is a new process's by now."""
    return {pid: start for pid, start in groups.items() if not _is_reused_pid(pid, start)}


def _is_reused_pid(pid: int, start: float) -> bool:
    try:
        return abs(psutil.Process(pid).create_time() - start) > START_TOLERANCE_SECONDS
    except psutil.Error:
        return False


def _is_in_groups(process: psutil.Process, groups: dict[int, float]) -> bool:
    group = os.getpgid(process.pid)
    if group not in groups:
        return False
    # Servers lead sessions of their own, and nothing in one is older than its leader.
    return os.getsid(process.pid) == group and process.create_time() > groups[group] - START_TOLERANCE_SECONDS


def _has_mark(process: psutil.Process, mark: str) -> bool:
    return process.environ().get(MARK_VARIABLE, "").startswith(mark)


def is_alive(group: int) -> bool:
    """Whether anything in the group still runs; the dead that nobody has reaped are in it too, for ever maybe."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return any(_is_alive_in(pid, group) for pid in psutil.pids())


def _is_alive_in(pid: int, group: int) -> bool:
    with suppress(psutil.Error, OSError):
        return os.getpgid(pid) == group and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    return False


def signal_group(group: int, number: int) -> None:
    assert group > 1, "0 and 1 are groups of everybody else"
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)
