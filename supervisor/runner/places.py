"""The directories that runs work in: one each, fresh, theirs alone, gone afterwards."""

import hashlib
import os
import shutil
import stat
import tempfile
from contextlib import suppress
from pathlib import Path
from uuid import UUID

from django.conf import settings

from mcp import executables
from supervisor.runner import removal

#: No more of an output file is read.
MOST_READ = 1024 * 1024
#: Among the directories of runs: examples for accounts that cannot reach where this is installed.
EXAMPLES = "examples"


class BadFile(Exception):
    """What should hold the output is no file of the run's own: why, as a sentence."""


def root() -> Path:
    """Where they are. Runs of another account cannot pass through the data directory, so theirs are beside it."""
    if settings.RUN_AS is None:
        return _own(settings.DATA / "runs", 0o700)
    name = hashlib.sha256(os.fsencode(settings.DATA)).hexdigest()[:16]
    return _own(Path(tempfile.gettempdir()) / f"gatehouse-runs-{name}", 0o711)


def of(execution_id: UUID) -> Path:
    return root() / str(execution_id)


def make(execution_id: UUID) -> Path:
    place = of(execution_id)
    if place.exists():  # of a preparation that the database broke off
        remove(place)
    place.mkdir(mode=0o700)
    _give(place)
    return place


def write(path: Path, data: bytes) -> None:
    """A file of the run's own, in a directory that nothing of it has touched yet."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600), "wb") as file:
        file.write(data)
    _give(path)


def read(path: Path) -> tuple[bytes, int]:
    """The beginning of what the run left there, and its whole size: never what a link leads to."""
    try:
        number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise BadFile(f"It ended well but left no file {path.name}.") from None
    except OSError:
        raise BadFile(f"{path.name} cannot be read: it must be a plain file.") from None
    try:
        facts = os.fstat(number)
        own = facts.st_uid == (settings.RUN_AS.uid if settings.RUN_AS else os.getuid())
        if not stat.S_ISREG(facts.st_mode) or facts.st_nlink != 1 or not own:
            raise BadFile(f"{path.name} must be a plain file that the run itself has written.")
        with os.fdopen(number, "rb", closefd=False) as file:
            return file.read(MOST_READ), facts.st_size
    finally:
        os.close(number)


def remove(place: Path) -> None:
    """All of it, however deep, by the steps of `removal`; what resists is left in the bin for the next start."""
    removal.remove(place, removal.bin_in(root()))


def found() -> list[Path]:
    """The directories of runs that there are, also of workers before this one."""
    return [place for place in root().iterdir() if place.name not in {EXAMPLES, removal.BIN}]


def lend_examples() -> None:
    """Copy the examples to where another account finds them: a checkout may lie in somebody's home."""
    if settings.RUN_AS is None:
        return
    copies = _own(root() / EXAMPLES, 0o755)
    for script in (executables.EXAMPLES / "agents").glob("*.py"):
        # Whole or not at all: another worker may be starting one just now.
        beside = copies / f".{script.name}.{os.getpid()}"
        shutil.copyfile(script, beside)
        beside.chmod(0o755)
        beside.replace(copies / script.name)


def lent(word: str) -> str:
    """The same word, with the name of an example's copy in place of its own."""
    own = f"{os.path.realpath(executables.EXAMPLES / 'agents')}{os.sep}"
    return str(root() / EXAMPLES / word.removeprefix(own)) if settings.RUN_AS and word.startswith(own) else word


def unreachable(program: str) -> str:
    """Why the account of runs cannot get at this program, as a sentence; empty when it can."""
    if settings.RUN_AS is None:
        return ""
    for path in reversed(Path(program).parents):
        facts = path.stat()
        mine = facts.st_uid == settings.RUN_AS.uid
        bit = stat.S_IXUSR if mine else stat.S_IXGRP if facts.st_gid == settings.RUN_AS.gid else stat.S_IXOTH
        if not facts.st_mode & bit:
            return (
                f"{settings.RUN_AS.name}, as whom runs happen, may not enter {path}, where {program} lies. "
                "Choose a program elsewhere, or set RUN_AS to an account that may."
            )
    return ""


def _own(path: Path, mode: int) -> Path:
    """The directory, ours: in a place where everybody may write, somebody may have been quicker."""
    with suppress(FileExistsError):
        path.mkdir(mode=mode, parents=True)
    facts = path.lstat()
    if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.getuid():
        raise PermissionError(f"{path} is not a directory of this account alone; take it away.")
    if stat.S_IMODE(facts.st_mode) != mode:
        path.chmod(mode)
    return path


def _give(path: Path) -> None:
    if settings.RUN_AS is not None:
        os.chown(path, settings.RUN_AS.uid, settings.RUN_AS.gid, follow_symlinks=False)
