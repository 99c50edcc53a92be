"""A real house under test: `manage.py up` in a process of its own, on its own data and port."""

import http.client
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import psutil

from tests.services import migrated
from tests.services.migrated import ROOT
from tests.services.postgresql import free_port

Found = TypeVar("Found")
#: Of the caller's environment, what a fresh machine has too, and how a test breaks the product on purpose.
PLAIN = ("PATH", "HOME", "LANG", "TMPDIR", "PYTHONPATH", "GATEHOUSE_MUTATION")
#: How to tell each process by its command line, and how the row of its heartbeat calls it.
ROLES = {
    "valkey": "valkey-server",
    "web": "uvicorn",
    "worker-control": "-Q control",
    "worker-runs": "-Q runs",
    "beat": "-A config beat",
    "stdio-owner": "mcp_stdio_owner",
    "grpc": "a2a_grpc",
}


@dataclass
class House:
    data: Path
    port: int
    environ: dict[str, str]
    arguments: tuple[str, ...] = ()
    launcher: subprocess.Popen[str] = field(init=False)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def output(self) -> str:
        return (self.data.parent / "output").read_text()

    def start(self) -> None:
        with (self.data.parent / "output").open("w") as output:
            command = [sys.executable, "manage.py", "up", *self.arguments]
            self.launcher = subprocess.Popen(
                command, cwd=ROOT, env=self.environ, stdout=output, stderr=subprocess.STDOUT, text=True
            )

    def manage(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "manage.py", *arguments]
        return subprocess.run(
            command, cwd=ROOT, env=self.environ, capture_output=True, text=True, timeout=60, check=False
        )

    def get(self, path: str, timeout: float = 10, **headers: str) -> tuple[int, bytes]:
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)) as link:
            link.request("GET", path, headers=headers)
            response = link.getresponse()
            return response.status, response.read()

    def readiness(self) -> dict[str, Any]:
        return dict(json.loads(self.get("/readyz")[1]))

    def is_ready(self) -> bool:
        try:
            return self.get("/readyz", timeout=4)[0] == 200
        except (OSError, http.client.HTTPException):
            return False

    def wait_until_ready(self, seconds: float = 60) -> None:
        """Ready, and said so: the greeting is printed after that."""
        self.wait_for(lambda: self.is_ready() and "Ctrl-C stops everything" in self.output, seconds, "ready")

    def wait_for(self, fact: Callable[[], Found], seconds: float, what: str) -> Found:
        """What `fact` returns as soon as that is true of anything."""
        deadline = time.monotonic() + seconds
        while not (found := fact()):
            assert self.launcher.poll() is None, f"Waiting for {what}: {self.epitaph()}"
            assert time.monotonic() < deadline, f"Not {what} after {seconds} s:\n{self.output}"
            time.sleep(0.05)
        return found

    def processes(self) -> list[psutil.Process]:
        """Every living process that was given this data directory, whoever its parent is now."""
        return [process for process in psutil.process_iter() if self._belongs(process)]

    def _belongs(self, process: psutil.Process) -> bool:
        try:
            ours = process.environ().get("GATEHOUSE_DATA") == str(self.data)
            return ours and process.status() != psutil.STATUS_ZOMBIE
        except psutil.Error:
            return False

    def children(self, role: str) -> list[psutil.Process]:
        """The launcher's own children of this role."""
        found = psutil.Process(self.launcher.pid).children()
        return [child for child in found if ROLES[role] in command_line(child)]

    def heard_of(self, role: str, pid: int, *, after: float = 0.0) -> bool:
        """Whether a heartbeat of this very process is on record (embedded database only)."""
        query = "SELECT 1 FROM nhi_process WHERE kind = ? AND pid = ? AND unixepoch(seen_at) >= ?"
        with closing(sqlite3.connect(f"file:{self.data / 'gatehouse.sqlite3'}?mode=ro", uri=True)) as database:
            return database.execute(query, (role, pid, int(after))).fetchone() is not None

    def epitaph(self) -> str:
        return f"the launcher ended with {self.launcher.returncode}, having said:\n{self.output}"

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        assert self.launcher.poll() is None, self.epitaph()
        self.launcher.send_signal(number)
        return self.launcher.wait(timeout=20)

    def assert_nothing_left(self, seconds: float = 5) -> None:
        deadline = time.monotonic() + seconds
        while left := self.processes():
            assert time.monotonic() < deadline, f"Left behind: {[process.cmdline() for process in left]}"
            time.sleep(0.02)


def command_line(process: psutil.Process) -> str:
    """What it was called with; nothing for one that has just ended."""
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


@contextmanager
def embedded(place: Path, *arguments: str, first: bool = False, **environ: str) -> Iterator[House]:
    """A started house; whatever happens, none of it outlives the block. `first` if it is to make its own database."""
    data, port, grpc_port = place / "data", free_port(), free_port()
    plain = {name: os.environ[name] for name in PLAIN if name in os.environ}
    own = {"GATEHOUSE_DATA": str(data), "PORT": str(port), "GRPC_PORT": str(grpc_port)}
    house = House(data=data, port=port, environ={**plain, **own, **environ}, arguments=arguments)
    if not first and "DATABASE_URL" not in environ:
        migrated.copy_to(data)
    house.start()
    try:
        yield house
    finally:
        house.launcher.kill()
        house.launcher.wait()
        house.assert_nothing_left()
