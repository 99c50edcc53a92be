"""A server is one process at most, runs as the database says it should, and ends with everything it has started."""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from mcp.client.types import ServerTarget
from mcp.protocol.upstream_errors import UpstreamFault
from tests.owner.stage import Owner, gone, owner, scene
from tests.services.waiting import wait_for

pytestmark = pytest.mark.capability("MCP-03")


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Owner]:
    with owner(Path(tmp_path_factory.mktemp("owner"))) as one:
        yield one


def at(target: ServerTarget, revision: int) -> ServerTarget:
    return ServerTarget(target.server_id, target.name, revision, "stdio")


async def ended(pid: int, seconds: float = 5) -> None:
    await asyncio.to_thread(wait_for, lambda: gone(pid), seconds, f"the end of {pid}")


@scene
async def test_starts_at_once_make_one_process(house: Owner, tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    target = house.add(f"starts={starts}")
    pids = await asyncio.gather(*(house.call(target, "pid") for _ in range(30)))
    assert set(pids) == {int(starts.read_text())}


@scene
async def test_who_stops_waiting_for_a_start_does_not_stop_it(house: Owner) -> None:
    target = house.add("slow=0.8")
    with pytest.raises(UpstreamFault) as caught:
        await house.call(target, "pid", timeout=0.2)
    assert (caught.value.code, caught.value.sent) == ("timeout", False)
    assert await house.call(target, "pid") > 0
    assert (await house.transport.status(target.server_id))["starts"] == 1


@scene
async def test_a_disabled_servers_process_stops(house: Owner) -> None:
    target = house.add()
    pid = await house.call(target, "pid")
    waiting = asyncio.create_task(house.call(target, "sleep", seconds=60))
    await asyncio.sleep(0)
    house.change(target, enabled=False)
    with pytest.raises(UpstreamFault, match="disabled"):
        await waiting
    await ended(pid)
    with pytest.raises(UpstreamFault) as caught:
        await house.call(target, "pid")
    assert (caught.value.code, caught.value.sent) == ("not_running", False)
    house.change(target, enabled=True)
    assert await house.call(target, "pid") != pid


@scene
async def test_a_new_revision_gets_a_process_of_its_own(house: Owner) -> None:
    target = house.add()
    first = await house.call(target, "pid")
    house.change(target, revision=2, env={"WHICH": "second"})
    told = await house.call(at(target, 2), "environment")
    assert told["environ"]["WHICH"] == "second"
    assert gone(first), "before the second one began"
    with pytest.raises(UpstreamFault, match="has changed") as caught:
        await house.call(target, "pid")
    assert caught.value.sent is False
    assert await house.call(at(target, 2), "pid") > 0


@scene
async def test_a_change_nobody_asked_about_stops_the_old_one(house: Owner) -> None:
    target = house.add()
    pid = await house.call(target, "pid")
    house.change(target, revision=2)
    await ended(pid)
    assert (await house.transport.status(target.server_id))["last_end"] == "The server's configuration was changed."


@scene
async def test_a_server_that_crashes_at_its_start_backs_off(house: Owner, tmp_path: Path) -> None:
    target = house.add("crash")
    for _ in range(3):
        with pytest.raises(UpstreamFault, match="ended with exit code 7") as caught:
            await house.call(target, "pid", timeout=20)
        assert caught.value.sent is False
    started = (await house.transport.status(target.server_id))["starts"]
    begun = time.monotonic()
    for _ in range(20):
        with pytest.raises(UpstreamFault, match="Failures in a row: 3; the next start is in 2 s"):
            await house.call(target, "pid")
    assert time.monotonic() - begun < 1
    status = await house.transport.status(target.server_id)
    assert (status["starts"], status["running"]) == (started, False)
    assert status["stderr"][-1] == "Cannot open the configuration."


@scene
async def test_a_changed_configuration_is_tried_at_once(house: Owner) -> None:
    target = house.add("crash")
    for _ in range(3):
        with pytest.raises(UpstreamFault):
            await house.call(target, "pid", timeout=20)
    house.change(target, argv=[str(house.puppet)], revision=2)
    assert await house.call(at(target, 2), "pid") > 0


@scene
async def test_a_server_that_ended_is_started_again(house: Owner) -> None:
    target = house.add()
    pid = await house.call(target, "pid")
    psutil.Process(pid).kill()
    await ended(pid)
    assert await house.call(target, "pid") != pid
    status = await house.transport.status(target.server_id)
    assert (status["starts"], status["last_end"]) == (2, "The server's process was ended by SIGKILL.")


@scene
async def test_a_server_that_hangs_is_ended_by_who_asks_whether_it_lives(house: Owner) -> None:
    target = house.add()
    pid = await house.call(target, "pid")
    with pytest.raises(UpstreamFault):
        await house.call(target, "hang", timeout=1.2)
    assert not gone(pid), "one call that takes too long says nothing of the others"
    with pytest.raises(UpstreamFault) as caught:
        await house.transport.handshake(target, timeout=3.5)
    assert caught.value.code == "timeout"
    await ended(pid, 8)
    assert (await house.transport.handshake(target, timeout=10)).era == "modern"


@pytest.mark.parametrize("tool", ["close_input", "close_output"])
@scene
async def test_a_server_that_closes_a_pipe_is_replaced(house: Owner, tool: str) -> None:
    target = house.add()
    pid = await house.call(target, "pid")
    with pytest.raises(UpstreamFault) as caught:
        await house.call(target, tool, timeout=3)
    assert caught.value.sent is True
    for _ in range(2):
        if await house.call(target, "pid") != pid:
            break
    assert await house.call(target, "pid") != pid
    await ended(pid)


@pytest.mark.parametrize("options", [{}, {"escape": True}, {"bare": True}], ids=["in its group", "escaped", "bare"])
@scene
async def test_what_a_server_started_ends_with_it(house: Owner, options: dict[str, bool]) -> None:
    target = house.add()
    grandchild = await house.call(target, "spawn", **options)
    pid = await house.call(target, "pid")
    psutil.Process(pid).kill()
    await ended(grandchild)


@scene
async def test_a_stubborn_server_is_ended_though_a_pipe_stays_open(house: Owner) -> None:
    target = house.add("stubborn")
    grandchild = await house.call(target, "spawn")
    pid = await house.call(target, "pid")
    house.change(target, enabled=False)
    await ended(pid, 8)
    await ended(grandchild, 8)
