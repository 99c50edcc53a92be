"""The agents that are measured: scripts that say by themselves when they began and ended."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

SCRIPT = """#!/bin/sh
date +%s.%N
sleep {seconds}
date +%s.%N
"""
INSTANT, SHORT, PATIENT, RESTING = "instant", "short", "patient", "resting"
#: How many seconds each waits between its two words. Who rests is stopped.
SECONDS = {INSTANT: 0.0, SHORT: 0.2, PATIENT: 2.0, RESTING: 600.0}
#: As many runs of an agent happen at once; a worker of plain Celery has as many processes.
AT_ONCE = 10


@dataclass(frozen=True)
class Programs:
    place: Path

    @property
    def allowed(self) -> Path:
        return self.place / "allowed"

    def path(self, name: str) -> str:
        return str(self.place / name)


@contextmanager
def written() -> Iterator[Programs]:
    """Where the account that runs have can read them."""
    programs = Programs(Path(tempfile.mkdtemp(prefix="gatehouse-bench-agents-")))
    try:
        programs.place.chmod(0o755)
        for name, seconds in SECONDS.items():
            script = Path(programs.path(name))
            script.write_text(SCRIPT.format(seconds=seconds))
            script.chmod(0o755)
        programs.allowed.write_text("".join(f"{programs.path(name)}\n" for name in SECONDS))
        programs.allowed.chmod(0o600)
        yield programs
    finally:
        shutil.rmtree(programs.place)
