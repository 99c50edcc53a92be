"""The nursery program: forks a keeper for each run, and lets nothing survive that a keeper has lost.

    python -I -S program.py FD [PROCESSOR ...]

Over the socket FD come messages of one byte and four descriptors: what is to be the agent's standard input, output and
errors, and a control socket of the run's own, over which the keeper hears what to start. So what one run is given never
enters the memory that the keepers of others are forked from. When the socket closes, everything ends. It and all below
it may use the processors of these numbers, whatever the runner keeps to.
"""

import gc
import os
import select
import signal
import socket
import sys
import traceback
import types

DESCRIPTORS = 4


def without_the_client() -> None:
    """Let the modules beside this one be imported by their names, but not the package: that would bring in asyncio."""
    here = os.path.dirname(os.path.realpath(__file__))  # noqa: PTH120 - pathlib takes memory in every keeper
    package = types.ModuleType("supervisor.nursery")
    package.__path__ = [here]
    sys.modules[package.__name__] = package
    sys.path.append(os.path.dirname(os.path.dirname(here)))  # noqa: PTH120 - the same


def forget_signals() -> None:
    """What the runner ignores or blocks is no matter of its agents. Once for all of them: it takes long."""
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP, signal.SIGPIPE}:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


def spread(processors: list[int]) -> None:
    try:
        os.sched_setaffinity(0, processors)
    except OSError:
        return  # there are none, or none that may be used any more: it stays where it was put


class Program:
    def __init__(self, door: socket.socket) -> None:
        self._door = door
        #: Each keeper's pid by the descriptor that tells when it ends.
        self._keepers: dict[int, int] = {}
        self._poll = select.poll()
        self._poll.register(door, select.POLLIN)

    def serve(self) -> None:
        """Until the runner closes its end, or has none any more; then until nothing below is left."""
        orphans = False
        while True:
            for ready, _ in self._poll.poll(tree.SOON * 1000 if orphans else None):
                if ready != self._door.fileno():
                    self._bury(ready)
                elif not self._admit():
                    return tree.clear()
            orphans = self._kill_orphans()

    def _admit(self) -> bool:
        """Fork a keeper for what comes in; False when nothing will any more."""
        message, descriptors, _, _ = socket.recv_fds(self._door, 1, DESCRIPTORS, socket.MSG_CMSG_CLOEXEC)
        # Fewer came if this process may not open more: then the runner finds its control socket closed.
        if len(descriptors) == DESCRIPTORS:
            try:
                self._fork_keeper(descriptors)
            except OSError as error:
                with socket.socket(fileno=os.dup(descriptors[0])) as control:
                    control.send(wire.line(failed=error.errno, what="keeper"))
        for descriptor in descriptors:
            os.close(descriptor)
        return bool(message)

    def _fork_keeper(self, descriptors: list[int]) -> None:
        if pid := os.fork():
            end = os.pidfd_open(pid)
            self._keepers[end] = pid
            self._poll.register(end, select.POLLIN)
            return
        try:
            # Of other runs too: what is held here would hide from them that their runner has gone.
            agent.close_all_but(0, 1, 2, *descriptors)
            keeper.keep(socket.socket(fileno=descriptors[0]), descriptors[1:])
        except BaseException:
            traceback.print_exc()
        finally:
            tree.clear()
            os._exit(0)

    def _bury(self, end: int) -> None:
        self._poll.unregister(end)
        os.close(end)
        os.waitpid(self._keepers.pop(end), 0)

    def _kill_orphans(self) -> bool:
        """Whether some were left behind by a keeper that did not end by itself; the kernel needs a moment for them."""
        orphans = {*tree.children(os.getpid())} - {*self._keepers.values()}
        if orphans:
            tree.kill(*orphans, sparing_roots=False)
        for orphan in orphans:
            os.waitpid(orphan, os.WNOHANG)
        return bool(orphans)


if __name__ == "__main__":
    without_the_client()
    from supervisor.nursery import agent, keeper, tree, wire

    spread([int(number) for number in sys.argv[2:]])
    forget_signals()
    keeper.adopt_orphans()
    # A collector that runs in a keeper would copy every page that is shared with the others.
    gc.collect()
    gc.disable()
    gc.freeze()
    Program(socket.socket(fileno=int(sys.argv[1]))).serve()
