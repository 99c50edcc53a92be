"""Keep a set of processes running until a signal says stop; then end them in order and leave nothing behind."""

import math
import os
import select
import signal
import time
from collections.abc import Callable, Iterable, Sequence

from config.launcher.children import Child

STOPS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
PATIENCE = 6.0
LOOK_AT_LOGS_EVERY = 60.0


class House:
    """`groups` are ended one after the other: each may rely on the later ones to the end."""

    def __init__(self, groups: Sequence[Sequence[Child]], say: Callable[[str], None]) -> None:
        self.groups = groups
        self.children = [child for group in groups for child in group]
        self.say = say
        self.told_to_stop: float | None = None
        self.hurry = False
        self._look_at_logs = 0.0
        self._bell, self._rope = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def listen(self) -> None:
        """From here to the process's end turn signals into bytes on a pipe: one wait for them, deaths and deadlines."""
        signal.set_wakeup_fd(self._rope, warn_on_full_buffer=False)
        for number in (*STOPS, signal.SIGCHLD):
            if number is not signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:  # nohup ignores it
                signal.signal(number, self._note)

    def start(self, children: Iterable[Child]) -> None:
        for child in children:
            child.rotate()
            child.start()

    def watch(
        self,
        done: Callable[[], bool] = lambda: False,
        every: float = LOOK_AT_LOGS_EVERY,
        longest: float = math.inf,
    ) -> bool:
        """Restart what dies until `done`, asked every so often; False when a stop signal or the deadline came first."""
        deadline = time.monotonic() + longest
        while self.told_to_stop is None and time.monotonic() < deadline:
            if done():
                return True
            self._mend()
            due = [child.due - time.monotonic() for child in self._missing()]
            self._wait(min([every, *due]))
        return False

    def stop(self) -> None:
        """End everything in order; what takes too long, or a second signal, is answered with SIGKILL."""
        for group in self.groups:
            for child in group:
                child.tell(signal.SIGTERM)
            self._outwait(group)

    def _outwait(self, group: Sequence[Child]) -> None:
        deadline = time.monotonic() + PATIENCE
        while left := [child for child in group if child.running and child.ended() is None]:
            if self.hurry or time.monotonic() > deadline:
                for child in left:
                    self.say(f"{child.name} did not end in time and was killed.")
                    child.kill()
                return
            self._wait(deadline - time.monotonic())

    def _missing(self) -> list[Child]:
        return [child for child in self.children if child.started and not child.running]

    def _mend(self) -> None:
        for child in self.children:
            if (code := child.ended()) is not None:
                wait = child.postpone()
                self.say(f"{child.name} ended {ending(code)}; starting it again in {wait:.1f} s. Its log: {child.log}")
        for child in self._missing():
            if child.due <= time.monotonic():
                self._restart(child)
        if self._look_at_logs <= time.monotonic():
            self._look_at_logs = time.monotonic() + LOOK_AT_LOGS_EVERY
            for child in self.children:
                child.trim()

    def _restart(self, child: Child) -> None:
        try:
            child.start()
        except OSError as error:  # no process or no disk to be had just now
            self.say(f"{child.name} could not be started ({error}); trying again in {child.postpone():.1f} s.")

    def _wait(self, longest: float) -> None:
        ready, _, _ = select.select([self._bell], [], [], max(longest, 0))
        if ready:
            os.read(self._bell, 4096)

    def _note(self, number: int, _frame: object) -> None:
        if number not in STOPS:
            return
        now = time.monotonic()
        if self.told_to_stop is None:
            self.told_to_stop = now
        # One stop may arrive twice: make passes on what the terminal has told us already.
        self.hurry = now - self.told_to_stop > 1


def ending(code: int) -> str:
    return f"by signal {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
