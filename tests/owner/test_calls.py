"""Calls reach servers over standard input and come back whole, whatever else the server writes."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mcp.protocol.upstream_errors import UpstreamError, UpstreamFault
from tests.owner.stage import CANARIES, Owner, owner, scene

pytestmark = pytest.mark.capability("MCP-03")

MIB = 1 << 20


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Owner]:
    with owner(Path(tmp_path_factory.mktemp("owner"))) as one:
        yield one


@scene
async def test_a_call_and_its_answer(house: Owner) -> None:
    target = house.add()
    handshake = await house.transport.handshake(target, timeout=10)
    assert (handshake.era, handshake.protocol_version) == ("modern", "2026-07-28")
    assert handshake.capabilities == {"tools": {}}
    value = await house.call(target, "echo", text="Grüße")
    assert value["arguments"] == {"text": "Grüße"}
    assert value["meta"]["io.modelcontextprotocol/clientCapabilities"] == {}
    again = await house.transport.handshake(target, timeout=10)
    assert again.era == "modern"


@scene
async def test_arguments_arrive_as_they_were_written(house: Owner) -> None:
    odd: dict[str, Any] = {"number": 2**70, "text": "\ud83d and \0", "deep": [[[[{}]]]]}
    value = await house.call(house.add(), "echo", **odd)
    assert (value["arguments"]["number"], value["arguments"]["deep"]) == (float(2**70), odd["deep"])


@pytest.mark.parametrize("options", [["legacy"], ["legacy", "leaves"]], ids=["says so", "leaves"])
@scene
async def test_a_server_of_the_handshake(house: Owner, options: list[str]) -> None:
    target = house.add(*options)
    handshake = await house.transport.handshake(target, timeout=10)
    assert (handshake.era, handshake.protocol_version) == ("legacy", "2025-06-18")
    assert handshake.server_info["name"] == "puppet"
    assert "initialize, 2025-11-25" in handshake.steps
    value = await house.call(target, "echo")
    assert value["meta"] == {}, "nothing of the other era"


@scene
async def test_a_server_that_is_deaf_to_the_first_question(house: Owner) -> None:
    handshake = await house.transport.handshake(house.add("legacy", "deaf"), timeout=15)
    assert handshake.era == "legacy"
    assert "no answer within 1 s" in handshake.steps


@scene
async def test_a_slow_starter_answers_the_first_question_late(house: Owner) -> None:
    handshake = await house.transport.handshake(house.add("slow=1.5"), timeout=15)
    assert handshake.era == "modern", "though it refused the handshake by then"


@scene
async def test_all_pages_of_the_tools(house: Owner) -> None:
    tools = await house.transport.list_tools(house.add(), timeout=10)
    assert [tool["name"] for tool in tools] == ["tool-0", "tool-1", "tool-2"]


@scene
async def test_an_error_of_the_servers_own(house: Owner) -> None:
    with pytest.raises(UpstreamError) as caught:
        await house.call(house.add(), "fail")
    assert (caught.value.code, caught.value.message, caught.value.data) == (-32000, "It broke.", {"why": "so"})


@scene
async def test_a_result_of_16_mib_in_one_line(house: Owner) -> None:
    result = await house.transport.call_tool(house.add(), "big", {"size": 16 * MIB}, timeout=20)
    assert len(result["content"][0]["text"]) == 16 * MIB


@scene
async def test_a_longer_line_fails_its_call_and_ends_the_server(house: Owner) -> None:
    target = house.add()
    before = await house.call(target, "pid")
    with pytest.raises(UpstreamFault, match="more than 16 MiB") as caught:
        await house.call(target, "endless", timeout=20)
    assert (caught.value.code, caught.value.sent) == ("too_large", True)
    assert await house.call(target, "pid") != before, "and the next call gets a new one"


@scene
async def test_noise_is_skipped_and_counted(house: Owner) -> None:
    target = house.add()
    assert await house.call(target, "noise") == "still here"
    status = await house.transport.status(target.server_id)
    assert (status["noise"], status["late_answers"]) == (7, 3)


@scene
async def test_half_an_emoji_does_not_cost_the_answer(house: Owner) -> None:
    result = await house.transport.call_tool(house.add(), "half_emoji", {}, timeout=10)
    assert result["content"][0]["text"] == "cut ?"


@scene
async def test_a_flood_on_standard_error_is_drained(house: Owner) -> None:
    target = house.add()
    assert await house.call(target, "flood", lines=500_000) == "flooded"
    status = await house.transport.status(target.server_id)
    assert status["stderr_bytes"] > 10 * MIB
    assert status["stderr"][-1] == "line 499999 of a flood"
    assert len(status["stderr"]) == 200


@scene
async def test_a_long_last_word_is_cut_between_words(house: Owner) -> None:
    target = house.add()
    await house.call(target, "complain", text=f"{'word ' * 799}token-that-would-be-cut-in-half and on\n" + "x" * 9000)
    lines = (await house.transport.status(target.server_id))["stderr"]
    assert lines[0].endswith("word … (cut)")
    assert lines[1] == " … (cut)"


@scene
async def test_progress_comes_in_order_before_the_answer(house: Owner) -> None:
    seen: list[float] = []

    async def note(step: dict[str, Any]) -> None:
        seen.append(step["progress"])

    target = house.add()
    result = await house.transport.call_tool(target, "progress", {"steps": 50}, timeout=10, on_progress=note)
    assert result["structuredContent"]["value"] == "done"
    assert seen == list(range(1, 51))


@scene
async def test_a_server_that_asks_is_told_no(house: Owner) -> None:
    told = await house.call(house.add(), "ask_back")
    assert (told["id"], told["error"]["code"]) == ("mine", -32601)


@scene
async def test_many_calls_at_once_each_get_their_own_answer(house: Owner) -> None:
    target = house.add()
    values = await asyncio.gather(*(house.call(target, "echo", number=number) for number in range(300)))
    assert [value["arguments"]["number"] for value in values] == list(range(300))


@scene
async def test_a_deadline_is_kept_and_told_to_the_server(house: Owner) -> None:
    target = house.add()
    await house.call(target, "pid")
    with pytest.raises(UpstreamFault) as caught:
        await house.call(target, "sleep", seconds=5, timeout=0.3)
    assert (caught.value.code, caught.value.sent) == ("timeout", True)
    assert len(await house.call(target, "list_cancelled")) == 1


@scene
async def test_who_stops_waiting_cancels_the_call(house: Owner) -> None:
    target = house.add()
    await house.call(target, "pid")
    waiting = asyncio.create_task(house.call(target, "sleep", seconds=5))
    while (await house.transport.status(target.server_id))["in_flight"] == 0:
        await asyncio.sleep(0.01)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    while not await house.call(target, "list_cancelled"):
        await asyncio.sleep(0.01)
    assert (await house.transport.status(target.server_id))["in_flight"] == 0


@scene
async def test_the_last_answer_of_a_server_that_leaves_is_heard(house: Owner) -> None:
    target = house.add()
    for _ in range(3):
        assert await house.call(target, "last_words") == "goodbye"
        while (await house.transport.status(target.server_id))["running"]:
            await asyncio.sleep(0.01)


@scene
async def test_all_who_wait_hear_at_once_that_it_ended(house: Owner) -> None:
    target = house.add()
    await house.call(target, "pid")
    waiting = [asyncio.create_task(house.call(target, "sleep", seconds=60)) for _ in range(10)]
    while (await house.transport.status(target.server_id))["in_flight"] < 10:
        await asyncio.sleep(0.01)
    begun = asyncio.get_running_loop().time()
    with pytest.raises(UpstreamFault):
        await house.call(target, "leave", code=3)
    faults = await asyncio.gather(*waiting, return_exceptions=True)
    assert asyncio.get_running_loop().time() - begun < 2
    assert {(fault.code, fault.detail) for fault in faults if isinstance(fault, UpstreamFault)} == {
        ("closed", "The server's process ended with exit code 3.")
    }


@scene
async def test_a_server_sees_nothing_of_ours(house: Owner) -> None:
    target = house.add(API_KEY="its own")
    told = await house.call(target, "environment")
    environ = told["environ"]
    assert environ["API_KEY"] == "its own"
    known = {"API_KEY", "GATEHOUSE_STDIO", "HOME", "LANG", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR"}
    assert environ.keys() <= known | {"LC_ALL", "TZ", "USER"}
    assert not set(CANARIES.values()) & set(environ.values())
    assert told["cwd"] == str(house.data / "stdio" / str(target.server_id))
    assert (Path(told["cwd"]).stat().st_mode & 0o777) == 0o700
    assert told["files"] == [0, 1, 2, 3], "standard ones, and the directory that was listed"
    assert "NoNewPrivs:\t1" in told["status"]


@pytest.mark.parametrize("name", ["LD_PRELOAD", "PYTHONPATH", "SECRET_KEY"])
@scene
async def test_a_variable_that_steers_starts_nothing(house: Owner, name: str) -> None:
    with pytest.raises(UpstreamFault, match=name) as caught:
        await house.call(house.add(**{name: "x"}), "pid")
    assert (caught.value.code, caught.value.sent) == ("not_running", False)


@scene
async def test_a_program_that_is_not_listed_starts_not(house: Owner) -> None:
    target = house.add()
    house.change(target, argv=["/bin/sh", "-c", "touch was-here"])
    with pytest.raises(UpstreamFault, match="EXECUTABLE_ALLOWLIST"):
        await house.call(target, "pid")
    assert not (house.data / "stdio" / str(target.server_id)).exists()
