"""A web process is killed in the middle of a call: its slot comes back, and its row says lost, by the house itself."""

import http.client
import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from tests.mcp import peer
from tests.mcp.load import callers
from tests.mcp.peer import Peer
from tests.mcp.world import Wanted
from tests.services.house import ROOT, House, embedded
from tests.services.postgresql import free_port
from tests.services.waiting import wait_for

pytestmark = [pytest.mark.capability("AUD-03", "MCP-08", "AUD-02"), pytest.mark.xdist_group("house")]
#: Of a server whose calls may take two seconds: slots are back after that and ten more, rows within a minute.
TIMEOUT = 2.0


@pytest.fixture(scope="module")
def server() -> Iterator[Peer]:
    with peer.serving("echo", port=free_port()) as one:
        yield one


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory, server: Peer) -> Iterator[House]:
    place = Path(tmp_path_factory.mktemp("lost"))
    with embedded(place, "--no-demo", EGRESS_ALLOW=f"127.0.0.1:{server.port}", WEB_WORKERS="2") as one:
        one.wait_until_ready()
        yield one


def test_a_killed_process_leaves_a_row_and_no_slot(house: House, server: Peer) -> None:
    made = build(house, Wanted(url=server.url, timeout=TIMEOUT, budgets=[["agent", "bot", {"concurrency_limit": 1}]]))
    token = made["tokens"]["bot"]
    server.hold()
    hanging = threading.Thread(target=call_and_lose, args=(house.port, token), daemon=True)
    hanging.start()
    wait_for(lambda: len(server.calls) == 1, 20, "called")
    [call_id] = server.call_ids
    assert in_flight(house) == [call_id]
    kill_whoever_calls(house, server)
    killed = time.monotonic()
    server.let_go()
    server.mode = "echo"
    house.wait_for(lambda: answers(house, token) == 200, TIMEOUT + 14, "the slot to come back")
    house.wait_for(lambda: row(house, call_id), 60, "the row of the lost call")
    assert time.monotonic() - killed < 60
    assert row(house, call_id) == ("error", "lost", "Timeout")
    assert call_id not in in_flight(house)
    hanging.join(10)


def answers(house: House, token: str) -> int:
    reply = callers.call(house.port, token, "peer__echo")
    assert reply.status == 200 or reply.reason == "concurrency_exceeded", reply
    return reply.status


def call_and_lose(port: int, token: str) -> None:
    with suppress(OSError, http.client.HTTPException, json.JSONDecodeError):
        callers.call(port, token, "peer__echo")


def kill_whoever_calls(house: House, server: Peer) -> None:
    """The process whose connection the server holds: it has the lease."""
    for child in house.children("web"):
        if any(one.raddr and one.raddr.port == server.port for one in child.net_connections(kind="tcp")):
            os.kill(child.pid, signal.SIGKILL)
            return
    raise AssertionError("no web process is connected to the server")


def build(house: House, wanted: Wanted) -> dict[str, Any]:
    environ = {**house.environ, "DJANGO_SETTINGS_MODULE": "config.settings"}
    command = [sys.executable, "-m", "tests.mcp.world", json.dumps(asdict(wanted))]
    done = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout.splitlines()[-1]))


def row(house: House, call_id: str) -> tuple[str, str, str] | None:
    found = ask(
        house, "SELECT status, reason, error_code FROM nhi_invocation_log WHERE id = ?", call_id.replace("-", "")
    )
    return found[0] if found else None


def in_flight(house: House) -> list[str]:
    return [str(UUID(one[0])) for one in ask(house, "SELECT id FROM mcp_call")]


def ask(house: House, query: str, *values: str) -> list[Any]:
    with closing(sqlite3.connect(f"file:{house.data / 'gatehouse.sqlite3'}?mode=ro", uri=True)) as database:
        return database.execute(query, values).fetchall()
