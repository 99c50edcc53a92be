"""One house per data directory."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class AlreadyRunning(Exception):
    """Another launcher holds this data directory."""


@contextmanager
def held(data: Path) -> Iterator[None]:
    """Hold the directory for as long as this process lives: the kernel lets go of it, whatever ends us."""
    data.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (data / "up.lock").open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise AlreadyRunning(
                f"Gatehouse already runs on {data} (process {file.read().strip() or 'unknown'}). Stop that one first, "
                "or give this one a directory of its own with GATEHOUSE_DATA."
            ) from None
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield
