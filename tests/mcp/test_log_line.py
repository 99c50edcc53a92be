"""Each call is one line of the structured log, as seed 004's tool call context says, without its secrets."""

import json
import logging
from datetime import UTC, datetime, timedelta
from io import StringIO
from typing import Any
from uuid import UUID

import pytest

from common.ids import uuid7
from mcp.gateway.types import CallContext
from nhi.models import InvocationLog
from tests.mcp.peer import Peer
from tests.mcp.scene import Scene, scene
from tests.nhi.tokens import forged as forge

pytestmark = [
    pytest.mark.capability("MCP-12", "AUD-07"),
    pytest.mark.both_databases,
    pytest.mark.django_db(transaction=True),
]
TOKEN = "ghp_" + "a1B2c3D4e5" * 3 + "F6a7b8"
FORGED = '{"event":"tool call","status":"success","forged"'
FIELDS = {
    "request_id", "thread_id", "tool_name", "parameters", "execution_start", "execution_duration", "status", "result",
    "error",
}  # fmt: skip


@pytest.fixture
def made(server: Peer) -> Scene:
    known = scene(server.url, agents=["bot", "stranger"], without=["stranger"], timeout=0.5)
    known.context = CallContext(thread_id="thread-1")
    return known


class Lines:
    """What the process wrote since the last look, as an operator's collector reads it."""

    def __init__(self, written: StringIO) -> None:
        self._written = written
        self.raw = ""

    def read(self) -> list[dict[str, Any]]:
        self.raw = self._written.getvalue()
        self._written.seek(0)
        self._written.truncate()
        found = [json.loads(line) for line in self.raw.split("\n") if line]
        return [line for line in found if line["event"] == "tool call"]


@pytest.fixture
def lines(made: Scene, monkeypatch: Any) -> Lines:
    """Its own handlers write here instead."""
    written = StringIO()
    for name in ("", "mcp.calls"):
        for handler in logging.getLogger(name).handlers:
            if type(handler) is logging.StreamHandler:
                monkeypatch.setattr(handler, "stream", written)
    return Lines(written)


def test_a_call_that_went_well(made: Scene, lines: Lines) -> None:
    request_id = uuid7()
    outcome = made.call(
        "echo", {"title": "Milk", "password": "hunter2-x", "note": f"key {TOKEN}"}, request_id=request_id
    )
    [line] = lines.read()
    assert set(line) >= FIELDS
    assert UUID(line["request_id"]) == request_id
    assert UUID(line["call_id"]) == outcome.call_id
    assert (line["thread_id"], line["tool_name"], line["status"]) == ("thread-1", "peer__echo", "success")
    assert line["parameters"]["title"] == "Milk"
    assert TOKEN not in lines.raw
    assert "hunter2-x" not in lines.raw
    assert line["result"]["content"][0]["type"] == "text"
    assert line["error"] == ""
    began = datetime.fromisoformat(line["execution_start"])
    assert datetime.now(UTC) - timedelta(seconds=30) < began <= datetime.now(UTC)
    assert 0 < line["execution_duration"] < 10
    assert line["args_hash"] == InvocationLog.objects.get().args_hash


def test_each_outcome_has_its_word_and_one_line(made: Scene, server: Peer, lines: Lines) -> None:
    made.call(agent="stranger")
    [refused] = lines.read()
    assert (refused["status"], refused["reason"], refused["result"]) == ("failure", "no_grant", None)
    assert refused["error"]
    server.mode = "fail"
    made.call()
    [failed] = lines.read()
    assert (failed["status"], failed["reason"]) == ("failure", "tool_error")
    assert failed["result"]["isError"] is True
    server.hold()
    made.call()
    [late] = lines.read()
    assert (late["status"], late["reason"], late["result"]) == ("timeout", "timeout", None)
    assert "0.5 s" in late["error"]


def test_nobody_leaves_no_line(made: Scene, lines: Lines) -> None:
    made.call(agent=forge(made.made["tokens"]["bot"]))
    assert lines.read() == []


def test_nothing_that_is_sent_can_forge_a_line(made: Scene, lines: Lines) -> None:
    forged = '\n{"event":"tool call","status":"success","forged":true}\n'
    made.context = CallContext(thread_id=forged, session_id=forged, user_instruction=forged)
    made.call(f"peer__{forged}", {forged: forged, "\u2028": "\u2029\x85\x1b[2J"})
    assert len(lines.read()) == 1
    assert not any(line.startswith(FORGED) for line in lines.raw.split("\n"))
    assert "\x1b" not in lines.raw


def test_what_is_large_is_left_out_and_its_size_told(made: Scene, server: Peer, lines: Lines) -> None:
    made.call("echo", {"text": "x" * 500_000})
    [line] = lines.read()
    assert len(lines.raw) < 20_000
    assert line["parameters"]["omitted_bytes"] > 500_000
    assert line["result"]["omitted_bytes"] > 500_000
    assert line["status"] == "success"


@pytest.mark.parametrize("value", [2**64, 10**19, -(2**63) - 1, 1e308, [[[[[]]]]], "\ufffd", {"": None}])
def test_whatever_the_arguments_are_there_is_a_line(made: Scene, lines: Lines, value: Any) -> None:
    assert made.call("echo", {"value": value}).status == "success"
    [line] = lines.read()
    assert line["parameters"] == {"value": value}
