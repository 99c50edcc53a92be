"""Sessions and their calls over several web processes, which share a database and nothing else."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.front import handshake
from tests.front.handshake import Line
from tests.front.suite import world_of
from tests.mcp.world import Wanted
from tests.nhi.load.webs import running
from tests.services.peers import sdk_server

pytestmark = [
    pytest.mark.capability("MCP-06"),
    pytest.mark.both_databases,
    pytest.mark.xdist_group("house"),
]


def test_a_session_and_its_calls_are_those_of_every_process(tmp_path: Path, broker: str) -> None:
    """Begun in one, served and cancelled in the other, ended in one, over in both."""
    with (
        sdk_server("http", tmp_path / "peer") as peer,
        running(tmp_path, broker, 2, EGRESS_ALLOW=urlsplit(peer.url).netloc) as webs,
    ):
        made = world_of(webs, Wanted(url=peer.url))
        first, second = (f"http://127.0.0.1:{port}/mcp/peer" for port in webs.ports)
        line = Line(made["tokens"]["bot"])
        line.begin(first)
        with line.posted(second, handshake.request("tools/list")) as answer:
            assert {tool["name"] for tool in json.load(answer)["result"]["tools"]} >= {"echo", "sleep"}
        sleep = handshake.request("tools/call", id="mine", name="sleep", arguments={"seconds": 60})
        with ThreadPoolExecutor(1) as aside:
            asking = aside.submit(read_answer, line, first, sleep)
            peer.wait_for_note("begun")
            # Of a request that this session does not have.
            with line.posted(second, handshake.notification("notifications/cancelled", requestId="other")) as answer:
                assert answer.status == 202
            assert not asking.done()
            with line.posted(second, handshake.notification("notifications/cancelled", requestId="mine")) as answer:
                assert answer.status == 202
            assert asking.result(timeout=20) == (200, "text/event-stream", b"")
        peer.wait_for_note("cancelled")
        response = webs.ask("GET", "mcp/invocations", token=made["tokens"]["bot"])["invocations"]
        assert [(row["status"], row["reason"]) for row in response] == [("error", "cancelled")]
        with line.posted(first, None, "DELETE") as answer:
            assert answer.status == 200
        for url in (first, second):
            with line.posted(url, handshake.request("ping")) as answer:
                assert answer.status == 404


def read_answer(line: Line, url: str, sent: Any) -> tuple[int, str | None, bytes]:
    with line.posted(url, sent) as answer:
        return answer.status, answer.headers["content-type"], answer.read()
