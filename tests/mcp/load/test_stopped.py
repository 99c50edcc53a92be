"""A web process is told to end in the middle of calls: they get their time, and then a row that says cancelled."""

import http.client
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict, dataclass, field
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


@dataclass
class Callers:
    """Calls through both doors, and what each was answered: a status and, of a refusal, its reason."""

    answers: list[tuple[int, str]] = field(default_factory=list)
    threads: list[threading.Thread] = field(default_factory=list)

    def begin(self, webs: Webs, token: str) -> None:
        for door in (by_rest, by_mcp) * 3:
            thread = threading.Thread(target=lambda door=door: self.answers.append(door(webs, token)), daemon=True)
            self.threads.append(thread)
            thread.start()

    def heard(self) -> set[tuple[int, str]]:
        for thread in self.threads:
            thread.join(5)
        assert len(self.answers) == len(self.threads)
        return set(self.answers)


def by_rest(webs: Webs, token: str) -> tuple[int, str]:
    reply = callers.call(webs.ports[0], token, "peer__echo")
    return reply.status, reply.reason


def by_mcp(webs: Webs, token: str) -> tuple[int, str]:
    asked = message(name="peer__echo", arguments={})
    told = {name.decode(): value.decode() for name, value in headers(asked, authorization=f"Bearer {token}")}
    with closing(http.client.HTTPConnection("127.0.0.1", webs.ports[0], timeout=30)) as link:
        link.request("POST", "/mcp", body(asked), told)
        reply = link.getresponse()
        said = json.loads(reply.read())
    return reply.status, said.get("error", {}).get("data", {}).get("reason", "")


def under_way(webs: Webs, server: Peer, token: str) -> Callers:
    """Calls that wait for the server."""
    callers = Callers()
    callers.begin(webs, token)
    deadline = time.monotonic() + 20
    while len(server.calls) < len(callers.threads):
        assert time.monotonic() < deadline, "the calls did not arrive"
        time.sleep(0.02)
    return callers


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
    waiting = under_way(webs, server, made["tokens"]["bot"])
    assert facts(webs) == ([], 12)
    assert end(webs) < 6
    assert facts(webs) == ([["error", "cancelled"]] * 6, 0)
    assert waiting.heard() == {(503, "stopping")}
    assert server.cancelled == 6


def test_calls_that_end_in_time_are_answered(webs: Webs, server: Peer) -> None:
    made = build(webs, server)
    server.hold()
    waiting = under_way(webs, server, made["tokens"]["bot"])
    letting_go = threading.Timer(1.0, server.let_go)
    letting_go.start()
    end(webs)
    letting_go.join()
    assert facts(webs) == ([["success", ""]] * 6, 0)
    assert waiting.heard() == {(200, "")}
