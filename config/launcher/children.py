"""One process under the launcher: how it is started, when it is due again, how it ends."""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from common.process import parent_death

STEADY_AFTER = 30.0
LONGEST_WAIT = 30.0
LARGEST_LOG = 20_000_000


@dataclass
class Child:
    name: str
    argv: Sequence[str]
    environ: Mapping[str, str]
    cwd: Path
    log: Path
    fds: tuple[int, ...] = ()
    process: subprocess.Popen[bytes] | None = None
    started: float = 0.0
    due: float = 0.0
    deaths: int = 0

    @property
    def running(self) -> bool:
        return self.process is not None

    def start(self) -> None:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(  # noqa: S603 - our own programs, no shell
                parent_death.build_command([*self.argv]),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=dict(self.environ),
                cwd=self.cwd,
                pass_fds=self.fds,
                # Ctrl-C in the terminal is the launcher's to answer: children are told in order.
                start_new_session=True,
            )
        self.started = time.monotonic()

    def ended(self) -> int | None:
        """The exit code, once, when it has ended since the last look."""
        code = self.process.poll() if self.process else None
        if code is not None:
            self.process = None
        return code

    def postpone(self) -> float:
        """Make it due again after a wait that grows while it keeps dying young; return the wait."""
        now = time.monotonic()
        self.deaths = 0 if now - self.started > STEADY_AFTER else self.deaths + 1
        wait = min(0.2 * 2.0 ** max(self.deaths - 1, 0), LONGEST_WAIT)
        self.due = now + wait
        return wait

    def tell(self, number: signal.Signals) -> None:
        if self.process:
            self.process.send_signal(number)

    def kill(self) -> None:
        if self.process:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            self.process = None

    def rotate(self) -> None:
        """Keep the log of the start before, and begin a new one."""
        if self.log.exists():
            self.log.replace(older(self.log))

    def trim(self) -> None:
        if self.log.exists() and self.log.stat().st_size > LARGEST_LOG:
            # Copied, not renamed: the child goes on writing at the end of the same file.
            shutil.copyfile(self.log, older(self.log))
            os.truncate(self.log, 0)


def older(log: Path) -> Path:
    return log.with_name(f"{log.name}.1")
