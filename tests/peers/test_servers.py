"""The outside peers work: each server made with an official SDK, driven by that SDK's own clients."""

import json
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.services.house import ROOT
from tests.services.peers import KINDS, OLD, PeerServer, python, sdk_client, sdk_server

pytestmark = pytest.mark.capability("MCP-03")

NEWEST, HANDSHAKE = "2026-07-28", "2025-11-25"
TOOLS = {"echo", "add", "big", "environment", "fail", "crash", "sleep", "progress", "secret"}


def ask(peer: PeerServer, *arguments: str, old: bool = False) -> dict[str, Any]:
    transport = ["--transport", "sse"] if peer.transport == "sse" else []
    return sdk_client(peer.target, *transport, *arguments, old=old)


def call(name: str, **arguments: Any) -> list[str]:
    return ["--call", name, json.dumps(arguments)]


#: Every server with the new client; the old client with one of each transport.
PAIRS = [*((kind, False) for kind in KINDS), ("http", True), ("stdio", True), ("sse-1", True)]


@pytest.mark.parametrize(("kind", "old"), PAIRS)
def test_each_server_answers_both_clients(kind: str, old: bool, tmp_path: Path) -> None:
    with sdk_server(kind, tmp_path / "peer", "--noise") as peer:
        words = (*call("progress", steps=3), *call("secret", text="s3", fails=True))
        said = ask(peer, "--list", *call("add", a=1, b=2), *call("fail"), *words, old=old)
    assert said["version"] == (HANDSHAKE if old or KINDS[kind][0] == OLD else NEWEST)
    assert {tool["name"] for tool in said["tools"]} == TOOLS
    added, failed, stepped, told = said["calls"]
    assert added["result"]["structuredContent"] == {"result": 3}
    assert failed["result"]["isError"]
    assert stepped["progress"] == [[1, 3, "step 1"], [2, 3, "step 2"], [3, 3, "step 3"]]
    assert told["progress"] == [[1, 1, "s3"]]
    assert told["result"]["isError"]
    assert "s3" in told["result"]["content"][0]["text"]


@pytest.mark.parametrize(("version", "old"), [("2025-03-26", False), ("2025-06-18", True), (HANDSHAKE, False)])
def test_a_client_can_ask_for_a_version_of_the_handshake(version: str, old: bool, tmp_path: Path) -> None:
    with sdk_server("http", tmp_path / "peer") as peer:
        said = ask(peer, "--version", version, *call("echo", text="hi"), old=old)
    assert said["version"] == version
    assert said["calls"][0]["result"]["content"] == [{"type": "text", "text": "hi"}]


@pytest.mark.parametrize("kind", ["http", "stdio", "http-1"])
def test_a_call_that_is_given_up_is_noted_as_cancelled(kind: str, tmp_path: Path) -> None:
    with sdk_server(kind, tmp_path / "peer") as peer:
        said = ask(peer, "--cancel-after", "0.5", *call("sleep", seconds=60))
        peer.wait_for_note("cancelled")
    assert said["calls"][0]["cancelled"]
    assert [note["event"] for note in peer.notes()] == ["begun", "cancelled"]


@pytest.mark.parametrize("kind", ["http", "stdio-1"])
def test_a_crash_ends_the_server_in_the_middle_of_the_call(kind: str, tmp_path: Path) -> None:
    with sdk_server(kind, tmp_path / "peer") as peer:
        said = ask(peer, "--timeout", "5", *call("crash"))
        assert peer.process is None or peer.process.wait(timeout=10) == 3
    assert "error" in said or "error" in said["calls"][0]
    assert peer.notes()[0]["event"] == "crashed"


def test_a_control_file_changes_and_withdraws_definitions(tmp_path: Path) -> None:
    with sdk_server("http", tmp_path / "peer") as peer:
        before = {tool["name"]: tool for tool in ask(peer, "--list")["tools"]}
        peer.change(echo={"description": "Now something else."}, add=None)
        after = {tool["name"]: tool for tool in ask(peer, "--list")["tools"]}
    assert after["echo"] == before["echo"] | {"description": "Now something else."}
    assert before.keys() - after.keys() == {"add"}


def test_a_server_writes_down_the_headers_it_got(tmp_path: Path) -> None:
    with sdk_server("http", tmp_path / "peer") as peer:
        ask(peer, "a-token", "--header", "X-Test", "seen", *call("echo", text="hi"))
        (called,) = [dict(asked["headers"]) for asked in peer.requests() if ["mcp-name", "echo"] in asked["headers"]]
    assert called["authorization"] == "Bearer a-token"
    assert called["x-test"] == "seen"
    assert called["mcp-protocol-version"] == NEWEST


@pytest.mark.parametrize("kind", ["stdio", "http-1"])
def test_a_result_can_be_huge(kind: str, tmp_path: Path) -> None:
    with sdk_server(kind, tmp_path / "peer") as peer:
        said = ask(peer, *call("big", size=3_000_000))
    assert len(said["calls"][0]["result"]["content"][0]["text"]) == 3_000_000


def test_a_child_tells_which_environment_it_was_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GATEHOUSE_CANARY", "seen")
    with sdk_server("stdio", tmp_path / "peer") as peer:
        given = ask(peer, *call("environment"))["calls"][0]["result"]["structuredContent"]
    assert "PATH" in given
    assert "GATEHOUSE_CANARY" not in given


def test_its_command_has_a_name_that_no_link_leads_away_from(tmp_path: Path) -> None:
    with sdk_server("stdio", tmp_path / "peer") as peer:
        assert Path(peer.command) == Path(peer.command).resolve()


def test_no_connection_is_said_so(tmp_path: Path) -> None:
    with sdk_server("http", tmp_path / "peer") as peer:
        url = peer.url
    assert "error" in sdk_client(url, "--list")


def test_a_missing_environment_names_the_command_that_brings_it(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="run make peers"):
        python(tmp_path / "nowhere")


def test_the_product_does_not_see_the_sdk() -> None:
    found = find_spec("mcp")
    assert found is not None
    assert found.origin == str(ROOT / "mcp" / "__init__.py"), sys.path
