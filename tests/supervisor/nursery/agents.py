"""What the tests of the nursery start, and how they look at it."""

import asyncio
import itertools
import os
import pwd
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from supervisor.nursery import Child, Command, Ending, Nursery, Usage

PYTHON = os.path.realpath("/proc/self/exe")
NOBODY = pwd.getpwnam("nobody").pw_uid
#: As this account, and as the one that root's agents are to have.
ACCOUNTS = [
    pytest.param(None, id="own account"),
    pytest.param(
        NOBODY, id="nobody", marks=pytest.mark.skipif(os.geteuid() != 0, reason="root alone changes accounts")
    ),
]

_numbers = itertools.count(1)


class Heard:
    """What one agent says and uses."""

    def __init__(self) -> None:
        self.out = self.err = b""
        self.usages: list[Usage] = []

    def output(self, which: str, data: bytes) -> None:
        setattr(self, which, getattr(self, which) + data)

    async def until(self, words: bytes) -> None:
        await until(lambda: words in self.out, f"{words!r} was said")


def a_long_time() -> str:
    """As many seconds as no other process of this machine sleeps: what has it in its command line is of this test."""
    return f"{7_000_000 + os.getpid()}.{next(_numbers)}"


def alive(marker: str) -> list[int]:
    """By its arguments, which no emptied environment and no new session changes; a zombie has none."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                arguments = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if marker.encode() in arguments:
                found.append(int(entry.name))
    return found


async def until(fact: Callable[[], Any], what: str, seconds: float = 10) -> None:
    deadline = time.monotonic() + seconds
    while not fact():
        assert time.monotonic() < deadline, f"It did not come to pass that {what}."
        await asyncio.sleep(0.01)


def sh(script: str, **facts: Any) -> Command:
    return Command(**{"argv": ("/bin/sh", "-c", script), "environment": {}, "directory": Path("/"), **facts})


def python(script: str, **facts: Any) -> Command:
    return sh("", argv=(PYTHON, "-I", "-S", "-c", script), **facts)


async def spawn(nursery: Nursery, command: Command) -> tuple[Child, Heard]:
    heard = Heard()
    return await nursery.spawn(command, on_output=heard.output, on_usage=heard.usages.append), heard


async def outcome(nursery: Nursery, command: Command) -> tuple[Ending, Heard]:
    child, heard = await spawn(nursery, command)
    await child.close_stdin()
    return await child.ended(), heard


def keeper(child: Child) -> psutil.Process:
    found = psutil.Process(child.pid).parent()
    assert found is not None
    return found


def living(process: psutil.Process) -> bool:
    """Whether it has not ended, whoever may still have to notice."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def own_processes() -> set[psutil.Process]:
    return {*psutil.Process().children(recursive=True)}


@asynccontextmanager
async def open_nursery() -> AsyncIterator[Nursery]:
    """Closed at the end, when it must leave neither a process nor a zombie."""
    before = own_processes()
    nursery = Nursery()
    try:
        yield nursery
    finally:
        await nursery.close()
        assert own_processes() == before


def in_nursery(test: Callable[[Nursery], Awaitable[None]]) -> None:
    async def whole() -> None:
        async with asyncio.timeout(30), open_nursery() as nursery:
            await test(nursery)

    asyncio.run(whole())
