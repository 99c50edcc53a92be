"""The gateway as `make up` starts it, over a database of its own, called at the port that users call."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from benchmarks.calls.database import Database
from benchmarks.calls.processes import Request, Target, mcp_call, rest_call
from tests.nhi.load.webs import KEYS
from tests.services import house as launcher
from tests.services.migrated import ROOT

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
    def __init__(self, database: Database, launched: launcher.House) -> None:
        self.database, self.launched = database, launched

    def target(self, name: str, granted: Granted, edge: str) -> Target:
        pids = [process.pid for process in self.launched.children("web")]
        return Target(name, [self.launched.port], pids, granted.request(edge))

    def grant(self, server: str, url: str, **limits: Any) -> Granted:
        """A server at that address, its one tool approved, an agent that may call it; limits for all four scopes."""
        request = json.dumps({"server": server, "url": url, "limits": limits})
        command = [sys.executable, "-m", "benchmarks.calls.making", request]
        environ = {**self.launched.environ, "DJANGO_SETTINGS_MODULE": "config.settings"}
        done = subprocess.run(command, cwd=ROOT, env=environ, stdout=subprocess.PIPE, text=True, check=True)
        return Granted(server, **json.loads(done.stdout.splitlines()[-1]))


@contextmanager
def house(database: Database, upstream: Target, workers: int = 1) -> Iterator[House]:
    """What `make up` starts, over this database, with so many web processes; it may call the upstream."""
    own = {"WEB_WORKERS": str(workers), "EGRESS_ALLOW": f"127.0.0.1:{upstream.ports[0]}"}
    environ = {**KEYS, **own, **database.environ}
    with launcher.embedded(database.place, "--no-demo", first=True, **environ) as launched:
        launched.wait_until_ready()
        made = launched.manage("create_person", "mara", "--role", "security-admin", "--json")
        if made.returncode:
            raise SystemExit(f"The person of the measurement could not be made:\n{made.stderr}")
        yield House(database, launched)
