"""Servers made with the official SDKs, old and new, over each HTTP transport."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from mcp.protocol.upstream_errors import UpstreamError, UpstreamFault
from tests.services.peers import sdk_server
from tests.upstream.client import run, to

pytestmark = pytest.mark.capability("MCP-03")

#: Each server, the transport it is configured with, and what it is found to speak.
KINDS = {
    "http": ("http", "modern", "2026-07-28"),
    "http-1": ("http", "legacy", "2025-11-25"),
    "sse": ("sse", "sse", "2025-11-25"),
    "sse-1": ("sse", "sse", "2025-11-25"),
}
kinds = pytest.mark.parametrize("kind", KINDS)


@kinds
@pytest.mark.parametrize("configured", ["as it is", "as plain http"])
def test_it_is_recognised_listed_and_called(kind: str, configured: str, tmp_path: Path) -> None:
    transport, era, version = KINDS[kind]
    steps: list[Any] = []

    async def step(said: dict[str, Any]) -> None:
        steps.append([said["progress"], said["total"], said["message"]])

    async def test() -> None:
        with sdk_server(kind, tmp_path / "peer") as peer:
            async with to(peer.url) as upstream:
                # HTTP+SSE is also found where nobody said that it is there.
                target = upstream.target(transport=transport if configured == "as it is" else "http")
                found = await upstream.transport.handshake(target, timeout=10)
                assert (found.era, found.protocol_version) == (era, version), found.steps
                tools = {tool["name"] for tool in await upstream.transport.list_tools(target, timeout=10)}
                assert {"echo", "add", "sleep"} <= tools
                added = await upstream.call("add", {"a": 1, "b": 2}, transport=target.transport)
                assert added["structuredContent"] == {"result": 3}
                await upstream.call("progress", {"steps": 3}, on_progress=step, transport=target.transport)
                assert steps == [[1, 3, "step 1"], [2, 3, "step 2"], [3, 3, "step 3"]]
                failed = await upstream.call("fail", transport=target.transport)
                assert failed["isError"]

    run(test)


@kinds
def test_a_call_that_nobody_waits_for_is_cancelled_there(kind: str, tmp_path: Path) -> None:
    async def test() -> None:
        with sdk_server(kind, tmp_path / "peer") as peer:
            async with to(peer.url) as upstream:
                transport = KINDS[kind][0]
                call = asyncio.create_task(upstream.call("sleep", {"seconds": 60}, timeout=60, transport=transport))
                await asyncio.to_thread(peer.wait_for_note, "begun")
                call.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await call
                await asyncio.to_thread(peer.wait_for_note, "cancelled")
                # A deadline that passes does the same.
                with pytest.raises(UpstreamFault) as caught:
                    await upstream.call("sleep", {"seconds": 60}, timeout=0.5, transport=transport)
                assert (caught.value.code, caught.value.sent) == ("timeout", True)
                await asyncio.to_thread(peer.wait_for_note, "cancelled", 2)

    run(test)


@kinds
def test_a_server_that_dies_in_the_middle_ends_the_call_at_once(kind: str, tmp_path: Path) -> None:
    async def test() -> None:
        with sdk_server(kind, tmp_path / "peer") as peer:
            async with to(peer.url) as upstream:
                async with asyncio.timeout(10):
                    with pytest.raises(UpstreamFault) as caught:
                        await upstream.call("crash", timeout=60, transport=KINDS[kind][0])
                assert (caught.value.code, caught.value.sent) == ("closed", True)

    run(test)


@kinds
def test_a_server_that_was_started_again_is_called_as_before(kind: str, tmp_path: Path) -> None:
    async def test() -> None:
        transport = KINDS[kind][0]
        with sdk_server(kind, tmp_path / "peer") as peer:
            port = int(peer.url.rpartition(":")[2].partition("/")[0])
            async with to(peer.url) as upstream:
                await upstream.call("echo", {"text": "before"}, transport=transport)
                assert peer.process is not None
                peer.process.kill()
                await asyncio.to_thread(peer.process.wait)
                with pytest.raises(UpstreamFault) as caught:
                    await upstream.call("echo", {"text": "away"}, transport=transport)
                assert caught.value.code == "unreachable"
                assert caught.value.sent is False
                with sdk_server(kind, tmp_path / "again", port=port):
                    after = await upstream.call("echo", {"text": "after"}, transport=transport)
                assert after["content"] == [{"type": "text", "text": "after"}]

    run(test)


@kinds
def test_a_huge_result_comes_whole_and_one_past_the_limit_does_not(kind: str, tmp_path: Path) -> None:
    async def test() -> None:
        with sdk_server(kind, tmp_path / "peer") as peer:
            async with to(peer.url) as upstream:
                transport = KINDS[kind][0]
                big = await upstream.call("big", {"size": 3_000_000}, timeout=20, transport=transport)
                assert len(big["content"][0]["text"]) == 3_000_000
                with pytest.raises(UpstreamFault) as caught:
                    await upstream.call("big", {"size": 17 << 20}, timeout=20, transport=transport)
                assert caught.value.code == "too_large"

    run(test)


@kinds
def test_an_unknown_tool_is_the_callers_fault(kind: str, tmp_path: Path) -> None:
    async def test() -> None:
        with sdk_server(kind, tmp_path / "peer") as peer:
            async with to(peer.url) as upstream:
                try:
                    result = await upstream.call("no-such-tool", transport=KINDS[kind][0])
                except UpstreamError as error:
                    assert error.blames_caller
                else:
                    assert result["isError"]

    run(test)
