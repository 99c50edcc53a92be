"""Run a program that dies with its parent, whatever ends that: `python leash.py PARENT_PID UID PROGRAM [ARGUMENT ...]`.

A wrapper rather than `preexec_fn`, which must not be used in a process that has threads. UID -1 keeps the account.
"""

import ctypes
import os
import pwd
import signal
import sys

PR_SET_PDEATHSIG = 1


def tie(parent: int) -> None:
    """Let the kernel kill this process when `parent`, or rather its thread that made this one, ends."""
    if sys.platform == "linux" and ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL) != 0:
        sys.exit("The kernel refused to tie this process to its parent.")
    if os.getppid() != parent:
        sys.exit("The parent has gone already.")


def main(parent: int, uid: int, program: list[str]) -> None:
    if uid not in {-1, os.getuid()}:
        os.setgroups([])
        os.setgid(pwd.getpwuid(uid).pw_gid)
        os.setuid(uid)
    tie(parent)  # after the change of account, which would undo it
    os.execv(program[0], program)  # noqa: S606 - the program is named by the caller, whole, without a shell


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
