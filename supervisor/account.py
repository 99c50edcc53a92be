"""As whom programs run, what they can get at so, and within which limits of the kernel."""

import os
import stat
from functools import cache
from pathlib import Path
from uuid import UUID

from django.conf import settings

from common.process import executable_allowlist
from supervisor.nursery import MEGABYTE

#: None on the memory that a process may reserve (AS): runtimes reserve far more than they use, so that is counted.
#: NPROC is for all that the account runs, threads too: for what multiplies faster than anybody looks.
RULES = "CORE=0,NOFILE=4096,NPROC=4096,no-new-privileges"
#: Seconds behind the limit on CPU time of a run, at which the kernel ends a process that nobody else has ended.
BEHIND = 5
#: Numbers that no machine gives to its groups.
FIRST_GROUP, GROUPS = 0x70000000, 0x08000000


def uid() -> int | None:
    """None for Gatehouse's own."""
    return settings.RUN_AS.uid if settings.RUN_AS else None


def rules(cpu: int | None) -> str:
    """For each process of a run by itself, with the CPU time that all of them may use together."""
    own = f"{RULES},FSIZE={settings.RUN_MAX_FILE_MB * MEGABYTE}"
    return own if cpu is None else f"{own},CPU={cpu + BEHIND}"


def group(run_id: UUID) -> int | None:
    """One of the run's own. The kernel lets a process look into another, and read the token in its environment, only
    when account *and* group agree, and all runs have one account."""
    if settings.RUN_AS is None:
        return None
    own = FIRST_GROUP + run_id.int % GROUPS
    return own if _may_be(own) else settings.RUN_AS.gid


def is_lent(word: str) -> bool:
    """Whether runs are given a copy of it: an example, since a checkout may lie in somebody's home."""
    script = Path(word)
    known = script.suffix == ".py" and script.parent == Path(
        os.path.realpath(executable_allowlist.EXAMPLES_DIRECTORY / "agents")
    )
    return settings.RUN_AS is not None and known and script.is_file() and not script.is_symlink()


def unreachable(program: str) -> str:
    """Why the account of runs cannot execute it, by the mode bits along its way, as a sentence; empty when it can."""
    if settings.RUN_AS is None or is_lent(program):
        return ""
    way = [*reversed(Path(program).parents), Path(program)]
    # Where runs have groups of their own, none of them is a file's.
    group = None if _may_be(FIRST_GROUP) else settings.RUN_AS.gid
    try:
        closed = [path for path in way if not path.stat().st_mode & _bit(path.stat(), settings.RUN_AS.uid, group)]
    except OSError:
        # It cannot be looked at from here, so nothing is known against it; its start will tell.
        return ""
    if not closed:
        return ""
    refused = f"enter {closed[0]}, where {program} lies" if closed[0] != way[-1] else f"execute {program}"
    return (
        f"{settings.RUN_AS.name}, as whom runs happen, may not {refused}. "
        "Choose a program elsewhere, or set RUN_AS to an account that may."
    )


def _bit(facts: os.stat_result, user: int, group: int | None) -> int:
    """The first of the three that fits decides, as in the kernel. A run is in the one group only."""
    return stat.S_IXUSR if facts.st_uid == user else stat.S_IXGRP if facts.st_gid == group else stat.S_IXOTH


def _may_be(group_id: int) -> bool:
    return any(first <= group_id < first + count for first, count in _mapped())


@cache
def _mapped() -> tuple[tuple[int, int], ...]:
    """The numbers that groups may have here: a container may know only its own few."""
    lines = Path("/proc/self/gid_map").read_text().splitlines()
    return tuple((int(first), int(count)) for first, _, count in (line.split() for line in lines))
