"""A lock file held for the life of a process. The kernel releases the lock however the process ends."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class FileLockedError(Exception):
    """Another process holds the lock. `holder` is its process id, or `unknown`."""

    def __init__(self, path: Path, holder: str) -> None:
        super().__init__(f"Process {holder} holds {path}.")
        self.holder = holder


@contextmanager
def hold_file_lock(path: Path) -> Iterator[None]:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with path.open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise FileLockedError(path, file.read().strip() or "unknown") from None
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield
