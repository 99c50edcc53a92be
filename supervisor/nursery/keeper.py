"""One run's keeper: everything that the run starts lives below it, dies with it, and is counted by it."""

import ctypes
import math
import os
import select
import signal
import socket
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from supervisor.nursery import agent, measuring, tree, wire
from supervisor.nursery.limits import LimitWatch
from supervisor.nursery.wire import Word

PR_SET_CHILD_SUBREAPER = 36
#: Seconds between two counts of the processes, and between two measurements of them.
COUNTS, SAMPLES = 0.1, 0.5


def adopt_orphans() -> None:
    """Whatever loses its parent below this process becomes its child instead of init's."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def come_first() -> None:
    """Or a thousand processes that all want to run would keep this one from ending them. Nothing it forks has it."""
    with suppress(PermissionError):  # root's to do; others have only their limit of processes
        os.sched_setscheduler(0, os.SCHED_RR | os.SCHED_RESET_ON_FORK, os.sched_param(1))


def keep(control: socket.socket, pipes: Sequence[int]) -> None:
    """All of a run, from the request that comes over `control` to the last process."""
    os.setsid()
    adopt_orphans()
    come_first()
    _say(control, here=os.getpid())
    wanted = _request(control)
    if wanted is None:
        return
    pid, failure = agent.start(wanted, pipes)
    for pipe in pipes:
        os.close(pipe)
    if failure:
        _say(control, **failure)
    else:
        _say(control, started=pid)
        measuring.look_as_who_runs(pid)
        Keeper(control, pid, LimitWatch(**wanted["limits"])).stay()


def _request(control: socket.socket) -> Word | None:
    lines = wire.Lines()
    while data := _heard(control):
        if words := lines.feed(data):
            return words[0]
    return None


def _say(control: socket.socket, **facts: Any) -> None:
    with suppress(OSError):  # nobody asks any more, which is heard next
        control.sendall(wire.line(**facts))


def _heard(control: socket.socket) -> bytes:
    try:
        return control.recv(65536)
    except ConnectionError:  # a runner that dies with words unread resets the connection
        return b""


class Keeper:
    def __init__(self, control: socket.socket, pid: int, watch: LimitWatch) -> None:
        self._control = control
        self._lines = wire.Lines()
        self._pid = pid
        self._watch = watch
        self._status: int | None = None
        self._over = self._cut = False
        self._killed: set[int] = set()
        self._last: measuring.Figures = measuring.measure([])
        self._tally = measuring.Tally()
        self._peak = 0.0
        #: When it was asked to end, and when what was left then was killed, by the clock on the wall.
        self._term_at: float | None = None
        self._kill_at: float | None = None
        #: When the patience ends that was asked for.
        self._deadline = math.inf
        self._next_count = time.monotonic() + COUNTS
        self._next_sample = 0.0
        self._poll = select.poll()
        self._poll.register(control, select.POLLIN)
        # Readable when the program ends: no signal handler, so no system call is ever interrupted.
        self._end = os.pidfd_open(pid)
        self._poll.register(self._end, select.POLLIN)

    def stay(self) -> None:
        """Until nothing of the run is left, which the kernel knows best."""
        while self._reap():
            if self._doomed():
                self._kill()
            else:
                self._look()
            for ready, _ in self._poll.poll(self._pause() * 1000):
                if ready == self._control.fileno():
                    self._hear()
                else:
                    self._note_end()
        self._tell_end()

    def _kill(self) -> None:
        killed = tree.kill(os.getpid(), sparing_roots=True)
        self._killed |= killed
        if killed and self._term_at is not None:
            self._kill_at = self._kill_at or time.time()
        # It may have come to that, and its program to an end, since they were counted.
        self._watch.count(len(killed))

    def _reap(self) -> bool:
        """Whether there is still something to wait for."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if pid == self._pid:
                self._status = status
                self._note_end()

    def _note_end(self) -> None:
        """Perhaps before it can be reaped: one of its own children may be tracing it, and is killed for that."""
        if not self._over:
            self._over = True
            self._poll.unregister(self._end)

    def _doomed(self) -> bool:
        """Who was asked to end has its time for all it started; who ends by itself leaves nothing behind."""
        left = self._over and self._deadline == math.inf
        return self._cut or left or time.monotonic() >= self._deadline

    def _pause(self) -> float:
        if self._doomed():
            return tree.SOON
        wake = min(self._next_count, self._deadline)
        return max(wake - time.monotonic(), tree.SOON)

    def _hear(self) -> None:
        data = _heard(self._control)
        for word in self._lines.feed(data):
            self._deadline = time.monotonic() + word["grace"]
            self._term_at = self._term_at or time.time()
            tree.send(signal.SIGTERM, pids := tree.below(os.getpid()))
            # Who is stopped would hear it only then.
            tree.send(signal.SIGCONT, pids)
        if not data:
            # The runner wants it so, or is no more.
            self._cut = True
            self._poll.unregister(self._control)

    def _look(self) -> None:
        now = time.monotonic()
        if now < self._next_count:
            return
        self._next_count = now + COUNTS
        pids = tree.below(os.getpid())
        self._watch.look(pids)
        if self._watch.exceeded != "processes":  # a crowd takes long to measure, and grows meanwhile
            self._tally.look(pids)
            if now >= self._next_sample or self._watch.exceeded:
                self._next_sample = now + SAMPLES
                self._sample(pids)
        self._cut = self._cut or bool(self._watch.exceeded)

    def _sample(self, pids: list[int]) -> None:
        figures = measuring.measure(pids)
        figures["cpu"] = max(figures["cpu"], self._tally.seconds)
        for sum_ in ("cpu", "read", "written"):
            figures[sum_] = max(figures[sum_], self._last[sum_])
        self._last = figures
        self._watch.spend(figures["cpu"])
        self._peak = max(self._peak, figures["memory"])
        with suppress(OSError):  # a runner that reads nothing misses it
            self._control.send(wire.line(usage=figures), socket.MSG_DONTWAIT)

    def _tell_end(self) -> None:
        code = os.waitstatus_to_exitcode(self._status or 0)
        books = measuring.ended()
        sums = {name: max(books[name], self._last[name]) for name in ("cpu", "read", "written")}
        sums["cpu"] = max(sums["cpu"], self._tally.seconds)
        if code == -signal.SIGKILL:  # by the kernel, if its own limit was reached before the next look
            self._watch.spend(sums["cpu"])
        ending = {
            **sums,
            "exit_code": code if code >= 0 else None,
            "signal": -code if code < 0 else None,
            **self._watch.said(),
            "peak_memory": max(self._peak, self._watch.peak, books["memory"]),
            "leftovers": len(self._killed - {self._pid}),
            "term_at": self._term_at,
            "kill_at": self._kill_at,
        }
        _say(self._control, gone=ending)
