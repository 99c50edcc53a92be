"""Servers made with the official SDKs, old and new, over standard input."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.owner.stage import Owner, gone, owner, scene
from tests.services.peers import sdk_server
from tests.services.waiting import wait_for

pytestmark = pytest.mark.capability("MCP-03")

KINDS = {"stdio": ("modern", "2026-07-28"), "stdio-1": ("legacy", "2025-11-25")}
kinds = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Owner]:
    with owner(Path(tmp_path_factory.mktemp("owner"))) as one:
        yield one


@kinds
@scene
async def test_it_is_recognised_listed_and_called(house: Owner, kind: str, tmp_path: Path) -> None:
    steps: list[Any] = []

    async def step(said: dict[str, Any]) -> None:
        steps.append([said["progress"], said["total"], said["message"]])

    with sdk_server(kind, tmp_path / "peer") as peer:
        target = house.add_program(peer.command, *peer.args)
        found = await house.transport.handshake(target, timeout=20)
        assert (found.era, found.protocol_version) == KINDS[kind], found.steps
        tools = {tool["name"] for tool in await house.transport.list_tools(target, timeout=10)}
        assert {"echo", "add", "sleep"} <= tools
        added = await house.transport.call_tool(target, "add", {"a": 1, "b": 2}, timeout=10)
        assert added["structuredContent"] == {"result": 3}
        await house.transport.call_tool(target, "progress", {"steps": 3}, timeout=10, on_progress=step)
        assert steps == [[1, 3, "step 1"], [2, 3, "step 2"], [3, 3, "step 3"]]
        assert (await house.transport.call_tool(target, "fail", {}, timeout=10))["isError"]


@kinds
@scene
async def test_a_call_that_nobody_waits_for_is_cancelled_there(house: Owner, kind: str, tmp_path: Path) -> None:
    with sdk_server(kind, tmp_path / "peer") as peer:
        target = house.add_program(peer.command, *peer.args)
        await house.transport.handshake(target, timeout=20)
        call = asyncio.create_task(house.transport.call_tool(target, "sleep", {"seconds": 60}, timeout=60))
        await asyncio.to_thread(peer.wait_for_note, "begun")
        call.cancel()
        await asyncio.to_thread(peer.wait_for_note, "cancelled")


@kinds
@scene
async def test_it_ends_when_it_is_disabled(house: Owner, kind: str, tmp_path: Path) -> None:
    with sdk_server(kind, tmp_path / "peer") as peer:
        target = house.add_program(peer.command, *peer.args)
        await house.transport.handshake(target, timeout=20)
        pid = (await house.transport.status(target.server_id))["pid"]
        house.change(target, enabled=False)
        await asyncio.to_thread(wait_for, lambda: gone(pid), 8, "its end")
