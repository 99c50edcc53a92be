"""A web process is told to end in the middle of calls: they get their time, and then a row that says cancelled."""

import http.client
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from tests.front.asking import body, headers, message
from tests.mcp import peer
from tests.mcp.load import callers
from tests.mcp.peer import Peer
from tests.mcp.world import Wanted
from tests.nhi.load.webs import Webs, running
from tests.services.house import ROOT
from tests.services.postgresql import free_port

pytestmark = [
    pytest.mark.capability("AUD-03", "AUD-02"),
    pytest.mark.both_databases,
    pytest.mark.xdist_group("house"),
]
LOOK = """
import json
from mcp.models import Call, CallSlot
from nhi.models import InvocationLog
rows = InvocationLog.objects.order_by("timestamp").values_list("status", "reason")
print(json.dumps({"rows": list(rows), "left": Call.objects.count() + CallSlot.objects.count()}))
"""


@pytest.fixture
def server() -> Iterator[Peer]:
    with peer.serving("echo", port=free_port()) as one:
        yield one


@pytest.fixture
def webs(tmp_path: Path, broker: str, server: Peer) -> Iterator[Webs]:
    with running(tmp_path, broker, 1, EGRESS_ALLOW=f"127.0.0.1:{server.port}") as one:
        yield one


def build(webs: Webs, server: Peer) -> dict[str, Any]:
    wanted = Wanted(url=server.url, budgets=[["agent", "bot", {"concurrency_limit": 20}]])
    return dict(json.loads(done(webs, "-m", "tests.mcp.world", json.dumps(asdict(wanted)))))


def facts(webs: Webs) -> tuple[list[list[str]], int]:
    """Rows as (status, reason), and how many leases and slots there are."""
    said = json.loads(done(webs, "manage.py", "shell", "--verbosity", "0", "--command", LOOK))
    return said["rows"], said["left"]


def done(webs: Webs, *arguments: str) -> str:
    ran = subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, env=webs.environ, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.splitlines()[-1]


def by_rest(webs: Webs, token: str) -> None:
    with suppress(OSError, http.client.HTTPException, json.JSONDecodeError):
        callers.call(webs.ports[0], token, "peer__echo")


def by_mcp(webs: Webs, token: str) -> None:
    asked = message(name="peer__echo", arguments={})
    told = {name.decode(): value.decode() for name, value in headers(asked, authorization=f"Bearer {token}")}
    with suppress(OSError, http.client.HTTPException):
        link = http.client.HTTPConnection("127.0.0.1", webs.ports[0], timeout=30)
        link.request("POST", "/mcp", body(asked), told)
        link.getresponse().read()
        link.close()


def under_way(webs: Webs, server: Peer, token: str) -> list[threading.Thread]:
    """Calls through both doors that wait for the server."""
    threads = [threading.Thread(target=door, args=(webs, token), daemon=True) for door in (by_rest, by_mcp) * 3]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + 20
    while len(server.calls) < len(threads):
        assert time.monotonic() < deadline, "the calls did not arrive"
        time.sleep(0.02)
    return threads


def end(webs: Webs) -> float:
    [process] = webs.processes
    begun = time.monotonic()
    process.terminate()
    # As after any SIGTERM that a process has seen to, uvicorn ends by that signal.
    assert process.wait(15) in {0, -15}
    return time.monotonic() - begun


def test_calls_that_do_not_end_are_recorded_as_cancelled(webs: Webs, server: Peer) -> None:
    made = build(webs, server)
    # What blocking code has open in a loop of its own is let go of as well.
    webs.ask("POST", f"mcp/servers/{made['server']}/test", {})
    server.hold()
    threads = under_way(webs, server, made["tokens"]["bot"])
    assert facts(webs) == ([], 12)
    assert end(webs) < 6
    assert facts(webs) == ([["error", "cancelled"]] * 6, 0)
    for thread in threads:
        thread.join(5)
    assert server.cancelled == 6


def test_calls_that_end_in_time_are_answered(webs: Webs, server: Peer) -> None:
    made = build(webs, server)
    server.hold()
    threads = under_way(webs, server, made["tokens"]["bot"])
    letting_go = threading.Timer(1.0, server.let_go)
    letting_go.start()
    end(webs)
    letting_go.join()
    assert facts(webs) == ([["success", ""]] * 6, 0)
    for thread in threads:
        thread.join(5)
