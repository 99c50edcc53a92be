"""Taking away what a run has left, as root perhaps, and never led astray by it.

The directory first moves into a bin that no run can enter. There each directory is emptied by its descriptor, and the
directories found in it move up into the bin beside it: no depth is too deep, and no link is ever followed.
"""

import os
import stat
from contextlib import suppress
from itertools import count
from pathlib import Path

BIN = "removing"
_number = count()


def bin_in(root: Path) -> Path:
    place = root / BIN
    place.mkdir(mode=0o700, exist_ok=True)
    return place


def remove(place: Path, bin_: Path) -> None:
    with suppress(FileNotFoundError):
        _open_up(place)
        place.rename(bin_ / _new_name())
    inside = os.open(bin_, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        # More than this one: those that somebody was taken away from in the middle.
        while names := os.listdir(inside):  # noqa: PTH208 - by its descriptor, which no path is
            if not sum(_empty(inside, name) for name in names):
                return
    finally:
        os.close(inside)


def _empty(inside: int, name: str) -> bool:
    """Whether it is gone, or at least flatter than before."""
    try:
        if not stat.S_ISDIR(os.stat(name, dir_fd=inside, follow_symlinks=False).st_mode):
            os.unlink(name, dir_fd=inside)
            return True
        _open_up(name, inside)
        there = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=inside)
        try:
            for entry in os.listdir(there):  # noqa: PTH208 - the same
                _take(there, entry, inside)
        finally:
            os.close(there)
        os.rmdir(name, dir_fd=inside)
    except FileNotFoundError:
        return True  # a colleague empties the same bin
    except OSError:
        return False
    return True


def _take(there: int, entry: str, inside: int) -> None:
    if stat.S_ISDIR(os.stat(entry, dir_fd=there, follow_symlinks=False).st_mode):
        _open_up(entry, there)
        os.rename(entry, _new_name(), src_dir_fd=there, dst_dir_fd=inside)
    else:
        os.unlink(entry, dir_fd=there)


def _open_up(name: str | Path, within: int | None = None) -> None:
    """A run may have shut its own directories. Root needs no leave, and might be led elsewhere while it takes it."""
    if os.geteuid() != 0:
        os.chmod(name, 0o700, dir_fd=within)


def _new_name() -> str:
    return f"{os.getpid()}-{next(_number)}"
