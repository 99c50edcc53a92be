"""An agent starts as what was asked for and finds nothing else; its output and input hold nobody up."""

import asyncio
import errno
import os
import re
import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest

from supervisor.nursery import NotStarted, Nursery
from tests.supervisor.nursery.agents import ACCOUNTS, NOBODY, in_nursery, outcome, sh, spawn, until

pytestmark = pytest.mark.capability("SUP-02")


@pytest.mark.parametrize("uid", ACCOUNTS)
def test_it_has_the_given_environment_and_no_other(uid: int | None) -> None:
    async def test(nursery: Nursery) -> None:
        given = {"TEXT": "ä $HOME `id`\nmore", "EMPTY": ""}
        _, heard = await outcome(nursery, sh("", argv=("/usr/bin/env", "-0"), uid=uid, environment=given))
        assert heard.out.decode() == "".join(f"{name}={value}\0" for name, value in given.items())
        _, heard = await outcome(nursery, sh("cat /proc/$PPID/environ", uid=uid))
        assert heard.out == b""

    in_nursery(test)


@pytest.mark.parametrize("uid", ACCOUNTS)
def test_it_inherits_nothing_of_who_started_it(uid: int | None) -> None:
    # It leads a session of its own, and has no more priority than others.
    standing = "cut -d' ' -f6,19,41 /proc/$$/stat | sed s/^$$/own/"
    script = f"{standing}; id -u; ls -m /proc/$$/fd; umask; ulimit -n; echo told >/dev/stderr"
    report = "grep -E '^(Groups|SigBlk|SigIgn|NoNewPrivs)' /proc/self/status | xargs echo"

    async def test(nursery: Nursery) -> None:
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)
        # Another one's pipes are open meanwhile.
        await spawn(nursery, sh("read line"))
        signal.signal(signal.SIGUSR1, signal.SIG_DFL)
        command = sh(f"{script}; {report}", uid=uid, rules="NOFILE=77,CORE=0,no-new-privileges")
        _, heard = await outcome(nursery, command)
        groups = " ".join(str(group) for group in os.getgroups()) if uid is None else ""
        own = os.getuid() if uid is None else uid
        *standing_lines, status_line = heard.out.decode().splitlines()
        assert standing_lines == ["own 0 0", str(own), "0, 1, 2", "0077", "77"]
        status = dict(re.findall(r"(\w+):\s*([^:]*?)(?=\s*\w+:|$)", status_line))
        assert (status["Groups"], status["NoNewPrivs"]) == (groups, "1")
        assert resettable(status["SigBlk"]) == resettable(status["SigIgn"]) == 0
        assert heard.err == b"told\n"

    in_nursery(test)


def resettable(mask: str) -> int:
    """Of the signals in this mask of /proc, those that a process can reset. The C library reserves 32 and 33: whoever
    inherits them ignored, as everything below GNU make 4.3 does, cannot change that through it."""
    return int(mask, 16) & sum(1 << (number - 1) for number in signal.valid_signals())


def test_no_shell_reads_its_arguments(tmp_path: Path) -> None:
    async def test(nursery: Nursery) -> None:
        odd = ("$(touch p)", "`touch p`", ";touch p", "*", "a  b", "")
        _, heard = await outcome(nursery, sh("", argv=("/bin/echo", *odd), directory=tmp_path))
        assert heard.out.decode() == " ".join(odd) + "\n"
        assert [*tmp_path.iterdir()] == []
        _, heard = await outcome(nursery, sh("pwd -P; echo text > made", directory=tmp_path))
        assert heard.out.decode().strip() == str(tmp_path.resolve())
        assert (tmp_path / "made").stat().st_mode & 0o777 == 0o600

    in_nursery(test)


def test_what_cannot_be_started_is_said_in_a_sentence(tmp_path: Path) -> None:
    plain, script = tmp_path / "plain", tmp_path / "script"
    plain.write_text("x")
    script.write_text("echo no interpreter named\n")
    script.chmod(0o755)
    cases = [
        (sh("", argv=("/nowhere/program",)), errno.ENOENT, "/nowhere/program could not be started: No such file"),
        (sh("", argv=(str(plain),)), errno.EACCES, f"{plain} could not be started: Permission denied."),
        (
            sh("", argv=(str(script),)),
            errno.ENOEXEC,
            f"{script} could not be started: Exec format error. A script names ",
        ),
        (sh("", argv=(str(script),), name="/srv/mine"), errno.ENOEXEC, "/srv/mine could not be started: Exec format "),
        (sh("true", directory=tmp_path / "no"), errno.ENOENT, f"The directory {tmp_path}/no could not be entered: No "),
        (sh("true\0"), errno.EINVAL, "/bin/sh could not be started: Invalid argument."),
        (sh("true", rules="NONSENSE=1"), errno.EINVAL, "The limits NONSENSE=1 could not be set: Invalid argument."),
    ]

    async def test(nursery: Nursery) -> None:
        for command, number, sentence in cases:
            with pytest.raises(NotStarted) as caught:
                await spawn(nursery, command)
            assert caught.value.errno == number
            assert str(caught.value).startswith(sentence)

    in_nursery(test)


@pytest.mark.skipif(os.geteuid() != 0, reason="root alone changes accounts")
def test_the_other_account_enters_only_what_it_may(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)

    async def test(nursery: Nursery) -> None:
        with pytest.raises(NotStarted, match="could not be entered: Permission denied"):
            await spawn(nursery, sh("true", uid=NOBODY, directory=tmp_path))

    in_nursery(test)


@contextmanager
def few_descriptors(room: int) -> Iterator[None]:
    """This process can open `room` more."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(int(number) for number in descriptors()) + 20, limits[1]))
    taken = []
    try:
        with suppress(OSError):
            while True:
                taken.append(os.dup(0))
        for number in taken[:room]:
            os.close(number)
        yield
    finally:
        for number in taken[room:]:
            os.close(number)
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


@pytest.mark.parametrize("room", [0, 3, 7])
@pytest.mark.parametrize("first", [True, False])
def test_without_free_descriptors_it_says_so_and_goes_on_later(room: int, first: bool) -> None:
    async def test(nursery: Nursery) -> None:
        if not first:
            await outcome(nursery, sh("true"))
        before = descriptors()
        with few_descriptors(room), pytest.raises(NotStarted) as caught:
            await spawn(nursery, sh("true"))
        assert caught.value.errno == errno.EMFILE
        assert first or descriptors() == before
        ending, _ = await outcome(nursery, sh("exit 4"))
        assert ending.exit_code == 4

    in_nursery(test)


def test_a_program_that_can_take_nothing_more_refuses_one_run_and_takes_the_next() -> None:
    async def test(nursery: Nursery) -> None:
        await outcome(nursery, sh("true"))
        program, before = nursery_pid(nursery), descriptors()
        limits = resource.prlimit(program, resource.RLIMIT_NOFILE)
        for most in (4, 6, 8):
            resource.prlimit(program, resource.RLIMIT_NOFILE, (most, limits[1]))
            with pytest.raises(NotStarted, match="No process could be made for /bin/sh"):
                await spawn(nursery, sh("true"))
            assert descriptors() == before
        resource.prlimit(program, resource.RLIMIT_NOFILE, limits)
        ending, _ = await outcome(nursery, sh("exit 4"))
        assert (ending.exit_code, nursery_pid(nursery)) == (4, program)

    in_nursery(test)


def descriptors() -> set[str]:
    """What this process has open; one of them is what it looks by."""
    return {entry.name for entry in Path("/proc/self/fd").iterdir()}


def test_many_runs_leave_no_descriptor_and_no_zombie() -> None:
    async def test(nursery: Nursery) -> None:
        await outcome(nursery, sh("true"))
        before = descriptors()
        for _ in range(5):
            endings = await asyncio.gather(*(outcome(nursery, sh("echo x; exit 9")) for _ in range(10)))
            assert all((ending.exit_code, heard.out) == (9, b"x\n") for ending, heard in endings)
        assert descriptors() == before
        program = psutil.Process(nursery_pid(nursery))
        await until(lambda: program.children() == [], "the nursery reaped its keepers")
        assert program.num_fds() <= 5

    in_nursery(test)


def nursery_pid(nursery: Nursery) -> int:
    assert nursery._doorway
    return nursery._doorway._process.pid
