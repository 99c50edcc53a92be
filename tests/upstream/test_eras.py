"""Each era is found by asking, and the same call works in all of them."""

from collections.abc import Callable

import pytest

from mcp.client.types import Handshake
from tests.upstream.client import SECRET, Upstream, run, running
from tests.upstream.servers import TOOLS, LegacyServer, ModernServer, Server, SseServer

pytestmark = pytest.mark.capability("MCP-03")

ERAS: dict[str, tuple[Callable[[], Server], str, str]] = {
    "modern": (ModernServer, "modern", "2026-07-28"),
    "modern, as a stream": (lambda: ModernServer(answer_as_stream=True), "modern", "2026-07-28"),
    "2025-11-25": (LegacyServer, "legacy", "2025-11-25"),
    "2025-11-25, as a stream": (lambda: LegacyServer(answer_as_stream=True), "legacy", "2025-11-25"),
    "2025-06-18": (lambda: LegacyServer(version="2025-06-18"), "legacy", "2025-06-18"),
    "2025-03-26": (lambda: LegacyServer(version="2025-03-26"), "legacy", "2025-03-26"),
    "2024-11-05": (SseServer, "sse", "2024-11-05"),
}
era = pytest.mark.parametrize(("make", "name", "version"), ERAS.values(), ids=ERAS)


async def met(upstream: Upstream) -> Handshake:
    return await upstream.transport.handshake(upstream.target(), timeout=5)


@era
def test_a_handshake_finds_the_era_and_what_the_server_says_of_itself(
    make: Callable[[], Server], name: str, version: str
) -> None:
    async def test() -> None:
        async with running(make()) as upstream:
            found = await met(upstream)
            assert (found.era, found.protocol_version) == (name, version)
            assert found.server_info["name"] in {"modern", "legacy", "old"}
            assert found.latency_ms > 0
            assert found.steps[0] == "POST server/discover, 2026-07-28"

    run(test)


@era
@pytest.mark.parametrize("known", [True, False], ids=["remembered", "unknown"])
def test_tools_are_listed_and_called_with_everything_kept(
    make: Callable[[], Server], name: str, version: str, known: bool
) -> None:
    async def test() -> None:
        server = make()
        server.page = 1
        async with running(server) as upstream:
            target = upstream.target(**{"era": name, "protocol_version": version} if known else {})
            assert await upstream.transport.list_tools(target, timeout=5) == TOOLS
            result = await upstream.transport.call_tool(target, "echo", {"a": "ä€😀", "n": 2**70}, timeout=5)
            assert result["content"] == [
                {"type": "text", "text": '{"a": "\\u00e4\\u20ac\\ud83d\\ude00", "n": 1180591620717411303424}'}
            ]
            assert result["x-unknown"] == [1, None]
            assert ("server/discover" in server.methods()) is not known or name == "sse"
            assert {headers["authorization"] for headers in server.headers} == {SECRET}

    run(test)


@pytest.mark.parametrize("make", [ModernServer, LegacyServer, SseServer])
def test_progress_comes_through_and_only_forward(make: Callable[[], Server]) -> None:
    async def test() -> None:
        server = make()
        server.answer_as_stream = True
        steps: list[object] = []

        async def step(said: dict[str, object]) -> None:
            steps.append((said["progress"], said["total"], said["message"]))
            assert "progressToken" not in said

        async with running(server) as upstream:
            await upstream.call(on_progress=step, meta={"traceparent": "00-1"})
            assert steps == [(1, 3, "step 1"), (2, 3, "step 2"), (3, 3, "step 3")]
            assert server.got[-1]["params"]["_meta"]["traceparent"] == "00-1"

    run(test)


@pytest.mark.parametrize("make", [ModernServer, LegacyServer, SseServer])
def test_large_arguments_are_sent_whole(make: Callable[[], Server]) -> None:
    async def test() -> None:
        async with running(make()) as upstream:
            result = await upstream.call(arguments={"text": "x" * (3 << 20)}, timeout=20)
            assert len(result["content"][0]["text"]) > 3 << 20

    run(test)


@pytest.mark.parametrize("make", [ModernServer, LegacyServer, SseServer])
def test_ids_are_never_used_twice(make: Callable[[], Server]) -> None:
    async def test() -> None:
        server = make()
        async with running(server) as upstream:
            for _ in range(3):
                await upstream.call()
            ids = [message["id"] for message in server.got if message.get("method") == "tools/call"]
            assert len(set(ids)) == 3

    run(test)


def test_a_server_that_lists_only_old_versions_is_initialized() -> None:
    async def test() -> None:
        server = ModernServer(supported=("2025-06-18",))
        async with running(server) as upstream:
            with pytest.raises(Exception, match="-32602"):
                await met(upstream)
            assert server.methods() == ["server/discover", "initialize"]

    run(test)


def test_a_server_that_changed_its_era_is_found_again() -> None:
    async def test() -> None:
        server = LegacyServer()
        async with running(server) as upstream:
            result = await upstream.call(era="modern")
            assert result["isError"] is False
            assert server.methods().count("tools/call") == 2
            # The first was refused before anything ran: it came without a session.
            await upstream.call(era="modern")
            assert server.opened == 1

    run(test)
