"""As whom programs run, and within which limits of the kernel."""

from functools import cache
from pathlib import Path
from uuid import UUID

from django.conf import settings

#: No limit on memory or processor time: runtimes reserve far more than they use, and a run has its timeout.
RULES = f"CORE=0,NOFILE=4096,NPROC=4096,FSIZE={4 << 30},no-new-privileges"
#: Numbers that no machine gives to its groups.
FIRST_GROUP, GROUPS = 0x70000000, 0x08000000


def uid() -> int | None:
    """None for Gatehouse's own."""
    return settings.RUN_AS.uid if settings.RUN_AS else None


def group(run_id: UUID) -> int | None:
    """One of the run's own. The kernel lets a process look into another, and read the token in its environment, only
    when account *and* group agree, and all runs have one account."""
    if settings.RUN_AS is None:
        return None
    own = FIRST_GROUP + run_id.int % GROUPS
    return own if any(first <= own < first + count for first, count in _mapped()) else settings.RUN_AS.gid


@cache
def _mapped() -> tuple[tuple[int, int], ...]:
    """The numbers that groups may have here: a container may know only its own few."""
    lines = Path("/proc/self/gid_map").read_text().splitlines()
    return tuple((int(first), int(count)) for first, _, count in (line.split() for line in lines))
