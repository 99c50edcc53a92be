"""Processes of the product over the test's own database, with its clock of schedules."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from config.launcher.plan import CELERY, WORKER
from tests.services.house import PLAIN, ROOT
from tests.settings import KEYS_FOR_TESTS
from tests.supervisor.workers import database_url


def environ(settings: Any, broker: str) -> dict[str, str]:
    return {
        **{name: os.environ[name] for name in PLAIN if name in os.environ},
        **KEYS_FOR_TESTS,
        "DJANGO_SETTINGS_MODULE": "config.settings",
        "GATEHOUSE_DATA": str(settings.DATA),
        "DATABASE_URL": database_url(),
        "BROKER_URL": broker,
        "EXECUTABLE_ALLOWLIST": str(settings.EXECUTABLE_ALLOWLIST),
        "SCHEDULE_CLOCK_SHIFT": str(settings.SCHEDULE_CLOCK_SHIFT),
        "CELERY_SKIP_CHECKS": "1",
    }


@contextmanager
def beats_and_a_worker(place: Path, settings: Any, broker: str, *, beats: int) -> Iterator[None]:
    """So many beats, and a worker of the queue `control`; all are killed at the end."""
    commands = [[*WORKER, "-Q", "control", "-n", "control@%h", "--pool", "prefork", "--concurrency", "2"]]
    commands += [[*CELERY, "beat", "-s", str(place / f"beat-{number}")] for number in range(beats)]
    with (place / "processes.log").open("ab") as log:
        started = [
            subprocess.Popen(command, cwd=ROOT, env=environ(settings, broker), stdout=log, stderr=log)
            for command in commands
        ]
    try:
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()
