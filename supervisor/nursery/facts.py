"""What is asked of the nursery and what it tells."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MEGABYTE = 1024 * 1024


@dataclass(frozen=True)
class Limits:
    """Of everything that a run starts, together; None is none."""

    processes: int = 64
    #: Bytes that are resident, those that processes share counted once.
    memory: int | None = None
    #: Seconds of CPU time.
    cpu: int | None = None


@dataclass(frozen=True)
class Command:
    """A program by its absolute path with exactly these arguments and variables; no shell reads any of it."""

    argv: tuple[str, ...]
    environment: Mapping[str, str]
    directory: Path
    #: The account to run as, for root to give; without `gid`, with that account's own group.
    uid: int | None = None
    gid: int | None = None
    #: As `common.process.parent_death` reads them.
    rules: str = ""
    limits: Limits = Limits()
    #: What it is called by those who asked for it, where that is another path.
    name: str = ""

    def request(self) -> dict[str, Any]:
        return {**dataclasses.asdict(self), "environment": dict(self.environment), "directory": str(self.directory)}


class NotStarted(Exception):
    """Nothing runs: `message` says what could not be done and why."""

    def __init__(self, errno: int, message: str) -> None:
        super().__init__(errno, message)
        self.errno = errno
        self.message = message

    def __str__(self) -> str:
        return self.message


@dataclass(frozen=True)
class Usage:
    """A whole tree of processes at one moment: bytes, and seconds of CPU including what has ended by then."""

    processes: int
    memory: int
    cpu: float
    read: int
    written: int


@dataclass(frozen=True)
class Ending:
    """How the program ended, and what everything that it started has used."""

    exit_code: int | None
    signal: int | None
    cpu: float
    #: The most that was seen or that the kernel knows of; never less than what a keeper takes to start a program.
    peak_memory: int
    read: int
    written: int
    #: The one of its limits that it was killed for passing, by its name above; empty for none.
    exceeded: str
    #: What it had of that.
    used: float
    #: How many processes had to be killed besides the program itself.
    leftovers: int
    #: The keeper died without a word. What it kept has been killed by the kernel and the nursery program.
    lost: bool
    #: When it was asked to end (TERM), and when what was left of it was ended (KILL): seconds since 1970.
    term_at: float | None = None
    kill_at: float | None = None
