"""The pipes and the control socket between a runner and one run."""

import os
import socket
from contextlib import ExitStack
from dataclasses import dataclass

from supervisor.nursery.control import Control


@dataclass(frozen=True)
class Ends:
    """What the runner holds of them."""

    stdin: int
    out: int
    err: int
    control: Control

    def close(self) -> None:
        self.control.close()
        for pipe in (self.stdin, self.out, self.err):
            os.close(pipe)


@dataclass(frozen=True)
class Passage:
    """Both ends of everything: `others` go to the keeper, in the order in which the nursery program expects them."""

    ends: Ends
    others: tuple[int, int, int, int]

    def close_others(self) -> None:
        for other in self.others:
            os.close(other)


def passage() -> Passage:
    """Raises OSError when no more may be opened, and then leaves nothing open."""
    with ExitStack() as undo:
        pipes = []
        for _ in range(3):
            pipes.append(os.pipe())
            undo.callback(os.close, pipes[-1][0])
            undo.callback(os.close, pipes[-1][1])
        (stdin_other, stdin), (out, out_other), (err, err_other) = pipes
        control, other = socket.socketpair()
        control.setblocking(False)
        undo.pop_all()
    return Passage(Ends(stdin, out, err, Control(control)), (other.detach(), stdin_other, out_other, err_other))
