"""Real workers of the queue `runs` over the test's own database, and what is left of them."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
from django.conf import settings
from django.db import connection

from config.launcher.plan import WORKER
from supervisor.models import Runner
from tests.services.house import PLAIN, ROOT
from tests.services.waiting import wait_for
from tests.settings import KEYS_FOR_TESTS


class Worker:
    def __init__(self, place: Path, broker: str, number: int, **environ: str) -> None:
        plain = {name: os.environ[name] for name in PLAIN if name in os.environ}
        own = {
            "DJANGO_SETTINGS_MODULE": "config.settings",
            "GATEHOUSE_DATA": str(settings.DATA),
            "DATABASE_URL": database_url(),
            "BROKER_URL": broker,
            "EXECUTABLE_ALLOWLIST": str(settings.EXECUTABLE_ALLOWLIST),
            "WORKDIR_ALLOWLIST": ",".join(map(str, settings.WORKDIR_ALLOWLIST)),
            "CELERY_SKIP_CHECKS": "1",
        }
        self.log = place / f"worker-{number}.log"
        argv = [*WORKER, "-Q", "runs", "-n", f"runs{number}@%h", "--pool", "threads", "--concurrency", "2"]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                argv, cwd=ROOT, env={**plain, **KEYS_FOR_TESTS, **own, **environ}, stdout=log, stderr=log
            )

    @property
    def is_ready(self) -> bool:
        assert self.process.poll() is None, self.log.read_text()[-3000:]
        return Runner.objects.filter(pid=self.process.pid).exists()

    def kill(self) -> None:
        """What nothing can prepare for."""
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(timeout=15)


def database_url() -> str:
    known = connection.settings_dict
    if connection.vendor == "sqlite":
        return f"sqlite:///{known['NAME']}"
    return f"postgresql://{known['USER']}:{known['PASSWORD']}@{known['HOST']}:{known['PORT']}/{known['NAME']}"


@contextmanager
def running(place: Path, broker: str, *, count: int = 1, **environ: str) -> Iterator[list[Worker]]:
    """Ready workers; those that still run at the end are killed, and leave nothing."""
    workers = [Worker(place, broker, number, **environ) for number in range(count)]
    try:
        wait_for(lambda: all(worker.is_ready for worker in workers), 60, "ready workers")
        yield workers
    finally:
        for worker in workers:
            worker.kill()


def with_command(part: str) -> list[psutil.Process]:
    """Living processes with this in their command line; the dead that nobody has reaped do not count."""
    found = []
    for process in psutil.process_iter():
        try:
            if part in " ".join(process.cmdline()) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.Error:
            continue
    return [process for process in found if process.pid != os.getpid()]


PYTHON = sys.executable
