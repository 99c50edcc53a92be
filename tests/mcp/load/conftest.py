"""Four web processes, a server of this process that they call, and what is made in their database."""

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from tests.mcp import peer
from tests.mcp.load import callers
from tests.mcp.load.callers import Reply
from tests.mcp.peer import Peer
from tests.mcp.world import Wanted
from tests.nhi.load.webs import Webs, running
from tests.services.house import ROOT
from tests.services.postgresql import free_port


@dataclass
class Town:
    webs: Webs
    peer: Peer
    made: dict[str, Any]

    @property
    def ports(self) -> list[int]:
        return self.webs.ports

    def call(self, tool: str = "echo", *, agent: str = "bot", web: int = 0, **parameters: Any) -> Reply:
        name = f"{self.made['name']}__{tool}"
        return callers.call(self.ports[web], self.made["tokens"][agent], name, parameters)

    def many(self, count: int, tool: str = "echo", *, agent: str = "bot", clients: int = 16) -> list[Reply]:
        """So many calls at all processes at once."""
        name, token = f"{self.made['name']}__{tool}", self.made["tokens"][agent]
        return callers.at_once(
            self.ports, count, lambda port, link, number: callers.call(port, token, name, {"n": number}, link=link),
            clients=clients,
        )  # fmt: skip

    def rows(self, **filters: str) -> list[dict[str, Any]]:
        """The invocation log, by an admin's eyes."""
        found: list[dict[str, Any]] = []
        cursor = ""
        while True:
            asked = {**filters, "limit": "100", **({"cursor": cursor} if cursor else {})}
            page = self.webs.ask("GET", f"mcp/invocations?{urlencode(asked)}")
            found += page["invocations"]
            cursor = page["next_cursor"]
            if not cursor:
                return found


@dataclass
class Place:
    """Web processes that run, in which each test makes a world of its own."""

    webs: Webs
    peer: Peer
    count: int = 0

    def town(self, **wanted: Any) -> Town:
        self.count += 1
        name = f"peer{self.count}"
        self.peer.mode = "echo"
        self.peer.forget()
        agents = wanted.pop("agents", ["bot"])
        spec = Wanted(url=self.peer.url, server=name, agents=[f"{agent}{self.count}" for agent in agents], **wanted)
        spec.by_role = [f"{agent}{self.count}" for agent in spec.by_role]
        spec.budgets = [[scope, self._named(scope, target, name), limits] for scope, target, limits in spec.budgets]
        command = [sys.executable, "-m", "tests.mcp.world", json.dumps(asdict(spec))]
        done = subprocess.run(command, cwd=ROOT, env=self.webs.environ, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        made = json.loads(done.stdout.splitlines()[-1])
        for kind in ("agents", "tokens", "credentials", "assignments"):
            made[kind] = {agent.removesuffix(str(self.count)): value for agent, value in made[kind].items()}
        made["grants"] = {key.replace(f"{self.count} ", " ", 1): value for key, value in made["grants"].items()}
        return Town(self.webs, self.peer, {**made, "name": name})

    def _named(self, scope: str, target: str, server: str) -> str:
        if scope == "server":
            return server
        if scope == "agent":
            return f"{target}{self.count}"
        agent, _, tool = target.partition(" ")
        return f"{agent}{self.count} {tool}" if scope == "grant" else target


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, broker: str) -> Iterator[Place]:
    port = free_port()
    with (
        peer.serving("echo", "other", port=port) as server,
        running(Path(tmp_path_factory.mktemp("gateway")), broker, EGRESS_ALLOW=f"127.0.0.1:{port}") as webs,
    ):
        yield Place(webs, server)
