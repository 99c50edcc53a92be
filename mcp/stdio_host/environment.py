"""Environment, working directory and limits of child processes. They never inherit the environment of this process."""

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from uuid import UUID

#: Variables that every program of the account may see. None belongs to Gatehouse.
INHERITED_VARIABLES = ("HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER")
MARK_VARIABLE = "GATEHOUSE_STDIO"
#: No limits on memory and CPU time: runtimes reserve far more memory than they use, and servers run for a long time.
PROCESS_LIMITS = f"CORE=0,NOFILE=4096,NPROC=4096,FSIZE={4 << 30},no-new-privileges"


def installation_id(data: Path) -> str:
    """Return an id that distinguishes the processes of one data directory from those of another."""
    return hashlib.sha256(os.fsencode(data.resolve())).hexdigest()[:16]


def build_environment(configured: Mapping[str, str], *, mark: str) -> dict[str, str]:
    """Build the environment of a server. `mark` identifies its descendants, even outside its process group."""
    inherited = {name: os.environ[name] for name in INHERITED_VARIABLES if name in os.environ}
    return {**inherited, **configured, MARK_VARIABLE: mark}


def server_directory(root: Path, server_id: UUID) -> Path:
    """Return the server's own directory, which persists between starts."""
    path = root / str(server_id)
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    return path
