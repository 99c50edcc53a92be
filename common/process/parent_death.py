"""Starts a program that dies with its parent, with an account and limits.

    python parent_death.py PARENT_PID UID [--rules=RULES] PROGRAM [ARGUMENT ...]

A wrapper rather than `preexec_fn`, which must not be used in a process that has threads. UID -1 keeps the account.
RULES are separated by commas: `NOFILE=4096` sets that resource limit, `no-new-privileges` sets that process attribute.
"""

import ctypes
import os
import pwd
import resource
import signal
import sys
from pathlib import Path

PR_SET_PDEATHSIG, PR_SET_NO_NEW_PRIVS = 1, 38
SCRIPT_PATH = Path(__file__)
RULES_OPTION = "--rules="


def build_command(program: list[str], *, uid: int = -1, rules: str = "") -> list[str]:
    """The command line that runs a program so that it dies with the thread that starts it."""
    return [
        sys.executable,
        "-I",
        "-S",
        str(SCRIPT_PATH),
        str(os.getpid()),
        str(uid),
        f"{RULES_OPTION}{rules}",
        *program,
    ]


def set_resource_limit(rule: str) -> None:
    name, _, value = rule.partition("=")
    resource_number = getattr(resource, f"RLIMIT_{name}")
    # Never above the current hard limit: only root may raise it.
    hard = resource.getrlimit(resource_number)[1]
    new_limit = int(value) if hard == resource.RLIM_INFINITY else min(int(value), hard)
    resource.setrlimit(resource_number, (new_limit, new_limit))


def apply_rules(rules: str) -> None:
    for rule in rules.split(","):
        if rule == "no-new-privileges" and sys.platform == "linux":
            ctypes.CDLL(None).prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        elif "=" in rule:
            set_resource_limit(rule)


def die_with_parent(parent: int) -> None:
    """Let the kernel kill this process when `parent` ends, or rather the thread that started this process."""
    if sys.platform == "linux" and ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL) != 0:
        sys.exit("The kernel refused to tie this process to its parent.")
    if os.getppid() != parent:
        sys.exit("The parent has gone already.")


def main(parent: int, uid: int, program: list[str]) -> None:
    rules, program = (program[0], program[1:]) if program[0].startswith(RULES_OPTION) else ("", program)
    if uid not in {-1, os.getuid()}:
        os.setgroups([])
        os.setgid(pwd.getpwuid(uid).pw_gid)
        os.setuid(uid)
    die_with_parent(parent)  # after the change of account, which resets the setting
    apply_rules(rules.removeprefix(RULES_OPTION))
    # Python ignores these signals, and the executed program would inherit that.
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    os.execv(program[0], program)  # noqa: S606 - the program is named by the caller, whole, without a shell


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
