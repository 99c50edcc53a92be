"""How a keeper makes the agent: a fork that gives up everything and becomes the program."""

import errno
import os
import pwd
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from common.process import parent_death
from supervisor.nursery import tree, wire
from supervisor.nursery.wire import Word

CANNOT = 127


def start(wanted: Word, pipes: Sequence[int]) -> tuple[int, Word | None]:
    """Its pid, once the program runs, or the word that says which step failed."""
    heard, told = os.pipe()
    keeper = os.getpid()
    if (pid := os.fork()) == 0:
        try:
            _become(wanted, pipes, told, keeper)
        finally:
            os._exit(CANNOT)
    os.close(told)
    # The kernel closes the other end when the program has begun.
    with os.fdopen(heard, "rb") as pipe:
        failure = wire.Lines().feed(pipe.read())
    if failure:
        os.waitpid(pid, 0)
    return pid, failure[0] if failure else None


def _become(wanted: Word, pipes: Sequence[int], told: int, keeper: int) -> None:
    steps: tuple[tuple[str, Callable[[], None]], ...] = (
        ("pipes", lambda: _hold_only(pipes, told)),
        ("memory", _go_first),
        ("account", lambda: _change_account(wanted["uid"], wanted["gid"])),
        ("leash", lambda: parent_death.die_with_parent(keeper)),  # after the change of account, which would undo it
        ("directory", lambda: os.chdir(wanted["directory"])),
        ("limits", lambda: parent_death.apply_rules(wanted["rules"])),
        ("program", lambda: _run(wanted["argv"], wanted["environment"])),
    )
    for what, step in steps:
        try:
            step()
        except (Exception, SystemExit) as error:  # it must be told, whatever it is: nobody sees this process fail
            os.write(told, wire.line(failed=getattr(error, "errno", None) or errno.EINVAL, what=what))
            return


def _hold_only(pipes: Sequence[int], told: int) -> None:
    os.setsid()
    os.umask(0o077)
    for number, pipe in enumerate(pipes):
        os.dup2(pipe, number)
    close_all_but(0, 1, 2, told)


def _go_first() -> None:
    """When memory runs out, an agent is ended and not who keeps it, nor anything that was here before."""
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("500")


def close_all_but(*kept: int) -> None:
    for number in {*tree.numbers("/proc/self/fd")} - {*kept}:
        try:
            os.close(number)
        except OSError:  # the one that the list was read by
            continue


def _change_account(uid: int | None, gid: int | None) -> None:
    if uid is None or uid == os.geteuid():
        return
    group = pwd.getpwuid(uid).pw_gid if gid is None else gid
    for number in range(3):
        # Or it could not open /dev/stdout: that asks who owns the pipe.
        os.fchown(number, uid, group)
    os.setgroups([])
    os.setgid(group)
    os.setuid(uid)


def _run(argv: list[str], environment: dict[str, str]) -> None:
    # Python ignores these, and what is ignored stays ignored in the program that comes next.
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    os.execve(argv[0], argv, environment)  # noqa: S606 - a whole path, without a shell
