"""The processes of a measurement: web servers whose use of the machine is read, and the clients that call them."""

import http.client
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil

from benchmarks.calls.load import MARK
from common.process import parent_death
from tests.services.house import PLAIN, ROOT
from tests.services.postgresql import free_port

UVICORN = (
    *(sys.executable, "-m", "uvicorn", "--loop", "uvloop", "--http", "httptools", "--no-access-log"),
    *("--log-level", "warning", "--timeout-graceful-shutdown", "2"),
)


@dataclass(frozen=True)
class Request:
    """A call as it goes over the wire, and what must be in the body of its reply."""

    path: str
    body: str
    expect: str
    headers: tuple[tuple[str, str], ...] = ()
    method: str = "POST"

    @property
    def wire(self) -> str:
        lines = [f"{self.method} {self.path} HTTP/1.1", "Host: 127.0.0.1", "Content-Type: application/json"]
        lines += [f"{name}: {value}" for name, value in self.headers]
        # MARK is replaced by a number of its own length.
        return "\r\n".join([*lines, f"Content-Length: {len(self.body.encode())}", "", self.body])


@dataclass(frozen=True)
class Target:
    """Something that is called, and the processes whose time is counted."""

    name: str
    ports: list[int]
    pids: list[int]
    request: Request


MEASURED = ("rate", "p50_ms", "p95_ms", "p99_ms", "cpu_ms", "rss_mb")


@dataclass(frozen=True)
class Cell:
    """What one target did at one concurrency."""

    target: str
    connections: int
    rate: float
    p50_ms: float
    p95_ms: float
    p99_ms: float
    #: Of the target's own processes, for each call.
    cpu_ms: float
    rss_mb: float
    calls: int
    errors: int
    first_errors: list[str]

    @classmethod
    def median(cls, turns: "list[Cell]") -> "Cell":
        """Of several turns: the median of what was measured, the sum of what was counted."""
        middle = {name: round(statistics.median(getattr(turn, name) for turn in turns), 3) for name in MEASURED}
        counted = {name: sum(getattr(turn, name) for turn in turns) for name in ("calls", "errors")}
        errors = [error for turn in turns for error in turn.first_errors]
        return cls(turns[0].target, turns[0].connections, first_errors=errors[:3], **middle, **counted)

    @property
    def complaint(self) -> str:
        return f"\n    {self.first_errors[0]!r}" if self.first_errors else ""

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


class Load:
    """The clients' process."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def measure(self, target: Target, *, connections: int, seconds: float, warm: float) -> Cell:
        job = {
            "ports": target.ports, "request": target.request.wire, "expect": target.request.expect,
            "connections": connections, "warm": warm, "seconds": seconds,
        }  # fmt: skip
        before = cpu(target.pids)
        said = self.ask(job)
        used = cpu(target.pids) - before
        return Cell(
            target=target.name, connections=connections, cpu_ms=round(used * 1000 / max(said["calls"], 1), 3),
            rss_mb=rss(target.pids), **said,
        )  # fmt: skip

    def ask(self, job: dict[str, Any]) -> dict[str, Any]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(job) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit("The clients' process ended.")
        return dict(json.loads(line))


def cpu(pids: list[int]) -> float:
    times = [psutil.Process(pid).cpu_times() for pid in pids]
    return sum(one.user + one.system for one in times)


def rss(pids: list[int]) -> float:
    """Of the largest of them, in megabytes."""
    return round(max((psutil.Process(pid).memory_info().rss for pid in pids), default=0) / 2**20, 1)


@contextmanager
def load() -> Iterator[Load]:
    command = parent_death.build_command([sys.executable, "-m", "benchmarks.calls.load"])
    process = subprocess.Popen(command, cwd=ROOT, env=plain(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with ended(process):
        yield Load(process)


@contextmanager
def web(application: str, count: int, environ: Mapping[str, str], log: Path) -> Iterator[tuple[list[int], list[int]]]:
    """So many processes of an ASGI application, each on a port of its own: their ports and ids."""
    ports = [free_port() for _ in range(count)]
    processes = []
    try:
        for port in ports:
            command = parent_death.build_command([*UVICORN, "--port", str(port), application])
            with log.open("ab") as output:
                processes.append(
                    subprocess.Popen(command, cwd=ROOT, env={**plain(), **environ}, stdout=output, stderr=output)
                )
        for port in ports:
            wait_for(port, log)
        yield ports, [process.pid for process in processes]
    finally:
        for process in processes:
            with ended(process):
                pass


def plain() -> dict[str, str]:
    return {name: os.environ[name] for name in PLAIN if name in os.environ}


@contextmanager
def ended(process: subprocess.Popen[Any]) -> Iterator[None]:
    with process:
        try:
            yield
        finally:
            process.terminate()
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()


def wait_for(port: int, log: Path) -> None:
    deadline = time.monotonic() + 60
    while not listens(port):
        if time.monotonic() > deadline:
            raise SystemExit(f"No web process came up on port {port}:\n{log.read_text()[-3000:]}")
        time.sleep(0.05)


def listens(port: int) -> bool:
    with suppress(OSError), closing(http.client.HTTPConnection("127.0.0.1", port, timeout=2)) as link:
        link.connect()
        return True
    return False


def mcp_call(path: str, tool: str, headers: tuple[tuple[str, str], ...] = ()) -> Request:
    """`echo` in MCP 2026-07-28."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
    }
    params = {"name": tool, "arguments": {"text": f"call-{MARK}"}, "_meta": meta}
    said = {"jsonrpc": "2.0", "id": f"{MARK}", "method": "tools/call", "params": params}
    own = (
        ("Accept", "application/json, text/event-stream"), ("MCP-Protocol-Version", "2026-07-28"),
        ("Mcp-Method", "tools/call"), ("Mcp-Name", tool),
    )  # fmt: skip
    return Request(path, json.dumps(said), f"call-{MARK}", (*own, *headers))


def rest_call(tool: str, token: str) -> Request:
    body = json.dumps({"parameters": {"text": f"call-{MARK}"}})
    headers = (("Authorization", f"Bearer {token}"),)
    return Request(f"/api/nhi/mcp/tools/{tool}/call", body, f"call-{MARK}", headers)
