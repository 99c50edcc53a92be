"""Journals process groups on disk; kills processes that an earlier host left.

The kernel kills a server with its host, but not the server's own children. Such a process is identified by the mark in
its environment, or by a process group in the journal. A process group whose id was reused since is left alone.
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

#: The kernel counts start times in hundredths of a second, and the clock may be adjusted a little.
START_TOLERANCE_SECONDS = 2.0
KILL_PASSES, PASS_PAUSE_SECONDS = 100, 0.02


class ProcessGroupJournal:
    """The file that lists the process groups of this host, for the host that follows after a crash."""

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
        """Return the previous host's groups with the start times of their leaders; none from before a reboot."""
        try:
            journal = json.loads(self._path.read_text())
            return (
                {int(pid): float(start) for pid, start in journal["groups"].items()}
                if journal["boot"] == read_boot_id()
                else {}
            )
        except (OSError, ValueError, KeyError, AttributeError, TypeError):
            return {}

    def _write(self) -> None:
        new_path = self._path.with_name(f"{self._path.name}.new")
        new_path.write_text(json.dumps({"boot": read_boot_id(), "groups": self._started}))
        new_path.replace(self._path)


def kill_processes(mark: str, groups: dict[int, float] | None = None) -> int:
    """Kill all processes with this mark or in these groups. Returns the number of killed processes."""
    killed: set[int] = set()
    for _ in range(KILL_PASSES):
        processes = list(_find_own_processes(mark, groups or {}))
        if not processes:
            break
        for process in processes:
            with suppress(psutil.Error):
                process.kill()
                killed.add(process.pid)
        # The next pass finds processes that were forked meanwhile. Their parents reap them.
        time.sleep(PASS_PAUSE_SECONDS)
    return len(killed)


def _find_own_processes(mark: str, groups: dict[int, float]) -> Iterator[psutil.Process]:
    live_groups = _drop_reused_pids(groups)
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if process.pid == os.getpid() or process.uids().real != os.getuid():
                continue
            if process.status() != psutil.STATUS_ZOMBIE and (
                _is_in_groups(process, live_groups) or _has_mark(process, mark)
            ):
                yield process


def _drop_reused_pids(groups: dict[int, float]) -> dict[int, float]:
    """Return the groups without those whose id now belongs to a new process."""
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
    # Each server leads a session of its own, and no process in a session is older than its leader.
    return os.getsid(process.pid) == group and process.create_time() > groups[group] - START_TOLERANCE_SECONDS


def _has_mark(process: psutil.Process, mark: str) -> bool:
    return process.environ().get(MARK_VARIABLE, "").startswith(mark)


def is_alive(group: int) -> bool:
    """Return whether a process of the group still runs. Zombies do not count: nobody may ever reap them."""
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


def signal_group(group: int, signal_number: int) -> None:
    assert group > 1, "0 and 1 are groups of everybody else"
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal_number)
