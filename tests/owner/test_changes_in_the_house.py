"""In a whole house that refreshes by the clock once a day: what a server announces is quarantined within seconds."""

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.mcp.world import Wanted
from tests.owner.announcers import Announcer, Legacy, Modern, serving
from tests.owner.stage import PUPPET
from tests.services.house import ROOT, House, embedded
from tests.services.waiting import wait_for

pytestmark = [pytest.mark.capability("MCP-04", "MCP-05"), pytest.mark.xdist_group("house")]


@dataclass
class Announced:
    house: House
    server: Modern
    #: Has no stream to listen to but failures.
    failing: Legacy
    #: Its text is what the process says of its tool.
    described: Path

    def build(self, name: str, **wanted: Any) -> None:
        spec = json.dumps(asdict(Wanted(server=name, agents=[f"of-{name}"], **wanted)))
        environ = {**self.house.environ, "DJANGO_SETTINGS_MODULE": "config.settings"}
        command = [sys.executable, "-m", "tests.mcp.world", spec]
        done = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr

    def ask(self, query: str, *values: str) -> Any:
        path = f"file:{self.house.data / 'gatehouse.sqlite3'}?mode=ro"
        with closing(sqlite3.connect(path, uri=True)) as database:
            return database.execute(query, values).fetchone()

    def state(self, server: str, tool: str) -> str:
        query = (
            "SELECT state FROM mcp_tool JOIN mcp_server s ON s.id = server_id WHERE s.name = ? AND mcp_tool.name = ?"
        )
        return str(self.ask(query, server, tool)[0])

    def wait(self, fact: Callable[[], Any], what: str) -> None:
        self.house.wait_for(fact, 20, what)


@pytest.fixture(scope="module")
def announced(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Announced]:
    place = Path(tmp_path_factory.mktemp("announced"))
    puppet, described, listed = place / "puppet", place / "described", place / "executables"
    puppet.write_text(f"#!{sys.executable}\n{PUPPET.read_text()}")
    puppet.chmod(0o700)
    described.write_text("As it was")
    listed.write_text(os.path.realpath(puppet))
    listed.chmod(0o600)
    own = {"MCP_REFRESH_SECONDS": "86400", "EXECUTABLE_ALLOWLIST": str(listed), "WEB_WORKERS": "1"}
    with (
        serving(Modern()) as server,
        serving(Legacy(refuses=500)) as failing,
        embedded(place, "--no-demo", EGRESS_ALLOW=allowed(server, failing), **own) as house,
    ):
        house.wait_until_ready()
        yield Announced(house, server, failing, described)
        assert house.stop() == 0
        house.assert_nothing_left()


def allowed(*servers: Announcer) -> str:
    return ",".join(f"127.0.0.1:{server.port}" for server in servers)


def test_by_a_process(announced: Announced) -> None:
    puppet = str(announced.described.parent / "puppet")
    announced.build("local", stdio=[puppet, f"described={announced.described}"])
    assert announced.state("local", "kept") == "approved"
    announced.described.write_text("As it is")
    announced.wait(lambda: announced.state("local", "kept") == "quarantined", "the change noticed")


def test_over_http(announced: Announced) -> None:
    announced.build("remote", url=announced.server.url)
    wait_for(lambda: announced.server.listeners, 20, "listened to")
    # Whoever begins to listen asks for a refresh; after that one only what is announced can be noticed.
    refreshed = "SELECT last_refreshed_at FROM mcp_server WHERE name = 'remote'"
    first = announced.ask(refreshed)
    announced.wait(lambda: announced.ask(refreshed) != first, "the refresh at the beginning")
    assert announced.state("remote", "echo") == "approved"
    announced.server.tools = [{"name": "echo", "description": "Says it louder", "inputSchema": {"type": "object"}}]
    announced.server.announce()
    announced.wait(lambda: announced.state("remote", "echo") == "quarantined", "the change noticed")
    # The tool that is not listed any more is kept, and marked.
    assert announced.state("remote", "fail") == "withdrawn"


def test_listening_says_nothing_of_how_a_server_is_doing(announced: Announced) -> None:
    announced.build("failing", url=announced.failing.url)
    announced.wait(lambda: announced.failing.listened >= 3, "listened to again and again")
    query = "SELECT status, faults FROM mcp_server WHERE name = 'failing'"
    assert announced.ask(query) == ("Ready", 0)
    assert announced.ask("SELECT COUNT(*) FROM mcp_breaker WHERE state <> 'CLOSED' OR failure_count > 0") == (0,)
