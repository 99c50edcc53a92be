"""The gateway's own web processes over a database of their own."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from benchmarks.calls.database import Database
from benchmarks.calls.processes import Request, Target, mcp_call, plain, rest_call
from tests.nhi.load.webs import KEYS, Webs
from tests.services import valkey
from tests.services.house import ROOT
from tests.services.postgresql import free_port

#: More than any run asks for: what is measured is that they are kept count of.
PLENTY = 100_000_000
LIMITS = {
    "requests_per_second": 100_000,
    "burst_size": 100_000,
    "concurrency_limit": 1_000,
    "daily_quota": PLENTY,
    "calls_per_hour": PLENTY,
}


@dataclass(frozen=True)
class Granted:
    """An agent that may call `echo` of one server, and the ids of what stands on the way."""

    name: str
    token: str
    server: str
    tool: str
    agent: str
    grant: str

    def request(self, edge: str) -> Request:
        name = f"{self.name}__echo"
        if edge == "rest":
            return rest_call(name, self.token)
        return mcp_call("/mcp", name, (("Authorization", f"Bearer {self.token}"),))


class House:
    def __init__(self, database: Database, webs: Webs) -> None:
        self.database, self.webs = database, webs

    def target(self, name: str, granted: Granted, edge: str) -> Target:
        pids = [process.pid for process in self.webs.processes]
        return Target(name, self.webs.ports, pids, granted.request(edge))

    def grant(self, server: str, url: str, **limits: Any) -> Granted:
        """A server at that address, its one tool approved, an agent that may call it; limits for all four scopes."""
        asked = json.dumps({"server": server, "url": url, "limits": limits})
        command = [sys.executable, "-m", "benchmarks.calls.making", asked]
        done = subprocess.run(command, cwd=ROOT, env=self.webs.environ, stdout=subprocess.PIPE, text=True, check=True)
        return Granted(server, **json.loads(done.stdout.splitlines()[-1]))


@contextmanager
def house(database: Database, upstream: Target, workers: int = 1) -> Iterator[House]:
    """So many web processes over the database, which may call the upstream."""
    data = database.place / "data"
    data.mkdir(mode=0o700)
    with valkey.server(data / "valkey.sock"):
        own = {
            "GATEHOUSE_DATA": str(data), "BROKER_URL": f"redis+socket://{data / 'valkey.sock'}",
            "DJANGO_SETTINGS_MODULE": "config.settings", "EGRESS_ALLOW": f"127.0.0.1:{upstream.ports[0]}",
        }  # fmt: skip
        webs = Webs([free_port() for _ in range(workers)], {**plain(), **KEYS, **own, **database.environ})
        webs.manage("migrate", "--verbosity", "0")
        webs.manage("create_person", "mara", "--role", "security-admin", "--json")
        try:
            webs.start(database.place / "log")
            yield House(database, webs)
        finally:
            webs.stop()
