"""Where a server runs and what it is told: its own directory, a few variables, limits; never our own environment."""

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from uuid import UUID

#: What any program of the account is told; none of it is ours.
INHERITED_VARIABLES = ("HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER")
MARK_VARIABLE = "GATEHOUSE_STDIO"
#: No limit on memory or processor time: runtimes reserve far more than they use, and a server lives for long.
PROCESS_LIMITS = f"CORE=0,NOFILE=4096,NPROC=4096,FSIZE={4 << 30},no-new-privileges"


def installation_id(data: Path) -> str:
    """Tells the processes of one data directory from those of another."""
    return hashlib.sha256(os.fsencode(data.resolve())).hexdigest()[:16]


def build_environment(configured: Mapping[str, str], *, mark: str) -> dict[str, str]:
    """`mark` finds again what a server has started, also where that has left its group."""
    inherited = {name: os.environ[name] for name in INHERITED_VARIABLES if name in os.environ}
    return {**inherited, **configured, MARK_VARIABLE: mark}


def server_directory(root: Path, server_id: UUID) -> Path:
    """A server's own place, kept from one start to the next."""
    path = root / str(server_id)
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    return path
