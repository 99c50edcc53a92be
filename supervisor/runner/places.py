"""The directories that runs work in: one each, fresh, theirs alone, gone afterwards."""

import fcntl
import hashlib
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import UUID

from django.conf import settings

from supervisor import account
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
    directory = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        _give(directory)
    finally:
        os.close(directory)
    return place


def write(path: Path, data: bytes) -> None:
    """A file of the run's own, in a directory that nothing of it has touched yet."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600), "wb") as file:
        file.write(data)
        _give(file.fileno())


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


def lent(word: str) -> str:
    """The same word; of an example, the name of a copy that says what the example says now."""
    if not account.is_lent(word):
        return word
    copies = _own(root() / EXAMPLES, 0o755)
    with _alone_in(copies):
        # All of them: one may import another.
        for script in Path(word).parent.glob("*.py"):
            if account.is_lent(str(script)):
                _copy(script, copies / script.name)
    return str(copies / Path(word).name)


def _copy(script: Path, copy: Path) -> None:
    """Whole or not at all: a run may be starting from it just now."""
    data = script.read_bytes()
    if copy.exists() and copy.read_bytes() == data:
        return
    beside = copy.with_name(f".{copy.name}")
    beside.write_bytes(data)
    beside.chmod(0o755)
    beside.replace(copy)


@contextmanager
def _alone_in(copies: Path) -> Iterator[None]:
    """One worker after the other, or what one has read before an edit could come after what another read behind it.

    By a file that no run may open: it could keep everybody waiting.
    """
    lock = os.open(copies / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


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


def _give(descriptor: int) -> None:
    """Make an open file the run's. By its path another run of that account could have put a link to our files there."""
    if settings.RUN_AS is not None:
        os.fchown(descriptor, settings.RUN_AS.uid, settings.RUN_AS.gid)
