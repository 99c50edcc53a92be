"""The owner itself: one per host, only for its own account, and whatever ends it, nothing is left for long."""

import asyncio
import os
import signal
import stat
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import orjson
import psutil
import pytest

from mcp.client.types import ServerTarget
from mcp.protocol.upstream_errors import UpstreamFault
from mcp.stdio_host import process_groups
from tests.owner.stage import ROOT, Owner, gone, owner, scene
from tests.services.waiting import wait_for

pytestmark = pytest.mark.capability("MCP-03")


@pytest.fixture
def house(tmp_path: Path) -> Iterator[Owner]:
    with owner(tmp_path) as one:
        yield one


async def family(house: Owner, target: ServerTarget) -> list[int]:
    """A server and what it has started: in its group, out of it, and without its environment."""
    spawned = [await house.call(target, "spawn", **how) for how in ({}, {"escape": True}, {"bare": True})]
    return [await house.call(target, "pid"), *spawned]


def test_a_stop_leaves_nothing(house: Owner) -> None:
    target, stubborn = house.add(), house.add("stubborn")
    pids: list[int] = []

    @scene
    async def calls(house: Owner) -> None:
        pids.extend(await family(house, target))
        pids.extend(await family(house, stubborn))

    calls(house)
    assert house.stop() == 0
    assert all(gone(pid) for pid in pids)
    assert not (house.data / "stdio.sock").exists()
    assert orjson.loads((house.data / "stdio" / "groups.json").read_bytes())["groups"] == {}


def test_a_killed_owner_takes_its_servers_and_the_next_one_the_rest(house: Owner) -> None:
    target = house.add("stubborn")
    pids: list[int] = []

    @scene
    async def calls(house: Owner) -> None:
        pids.extend(await family(house, target))
        waiting = asyncio.create_task(house.call(target, "sleep", seconds=60))
        while (await house.transport.status(target.server_id))["in_flight"] == 0:
            await asyncio.sleep(0.01)
        house.kill()
        with pytest.raises(UpstreamFault) as caught:
            await waiting
        assert (caught.value.code, caught.value.sent) == ("not_running", True)
        with pytest.raises(UpstreamFault) as caught:
            await house.call(target, "pid")
        assert (caught.value.code, caught.value.sent) == ("not_running", False)

    calls(house)
    leader, *grandchildren = pids
    wait_for(lambda: gone(leader), 5, "the server gone with its owner")
    assert not any(gone(pid) for pid in grandchildren), "the kernel ends the server alone"
    house.start()
    wait_for(lambda: all(gone(pid) for pid in grandchildren), 5, "what it had started gone too")

    @scene
    async def again(house: Owner) -> None:
        assert await house.call(target, "pid") not in pids

    again(house)


def test_a_server_that_is_not_used_is_ended(tmp_path: Path) -> None:
    with owner(tmp_path, idle=0.5) as house:

        @scene
        async def calls(house: Owner) -> None:
            target = house.add()
            pid = await house.call(target, "pid")
            assert await house.call(target, "sleep", seconds=1.5) == "slept", "a call that lasts is use"
            assert await house.call(target, "pid") == pid
            await asyncio.to_thread(wait_for, lambda: gone(pid), 5, "its end")
            status = await house.transport.status(target.server_id)
            assert (status["running"], status["last_end"]) == (False, "The server was not used for a while.")
            assert await house.call(target, "pid") != pid

        calls(house)


def test_a_number_that_is_somebody_elses_by_now_is_left_alone(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as stranger:
        try:
            started = psutil.Process(stranger.pid).create_time()
            assert process_groups.kill_processes("no such mark", {stranger.pid: started - 100}) == 0
            assert stranger.poll() is None
            assert process_groups.kill_processes("no such mark", {stranger.pid: started}) == 1
            assert stranger.wait(5) == -signal.SIGKILL
        finally:
            stranger.kill()


def test_groups_from_before_a_reboot_are_forgotten(tmp_path: Path) -> None:
    path = tmp_path / "groups.json"
    path.write_text('{"boot": "another", "groups": {"7": 1.0}}')
    assert process_groups.ProcessGroupJournal(path).load_leftovers() == {}
    path.write_text("half a fi")
    assert process_groups.ProcessGroupJournal(path).load_leftovers() == {}


def test_a_second_owner_says_so_and_ends_well(house: Owner) -> None:
    command = [sys.executable, "manage.py", "mcp_stdio_owner"]
    second = subprocess.run(
        command, cwd=ROOT, env=house.environ, capture_output=True, text=True, timeout=30, check=False
    )
    assert second.returncode == 0, second.stderr
    assert f"already runs (process {house.process.pid})" in second.stdout


def test_the_socket_is_for_its_own_account_alone(house: Owner) -> None:
    assert stat.S_IMODE((house.data / "stdio.sock").stat().st_mode) == 0o600


HOSTILE = {
    "too long": struct.pack(">I", (1 << 31) - 1) + b"x",
    "not JSON": struct.pack(">I", 3) + b"{{{",
    "too deep": struct.pack(">I", 100_000) + b"[" * 100_000,
    "no object": struct.pack(">I", 2) + b"[]",
    "no number": struct.pack(">I", 2) + b"{}",
    "cut short": struct.pack(">I", 100) + b"{",
}


@pytest.mark.parametrize("raw", HOSTILE.values(), ids=HOSTILE)
@scene
async def test_a_hostile_frame_ends_its_connection_and_no_other(house: Owner, raw: bytes) -> None:
    target = house.add()
    waiting = asyncio.create_task(house.call(target, "sleep", seconds=0.5))
    reader, writer = await asyncio.open_unix_connection(house.data / "stdio.sock")
    writer.write(raw)
    writer.write_eof()
    assert await asyncio.wait_for(reader.read(), 5) == b""
    writer.close()
    assert await waiting == "slept"


@scene
async def test_no_command_crosses_the_socket(house: Owner) -> None:
    reader, writer = await asyncio.open_unix_connection(house.data / "stdio.sock")
    touched = house.data / "touched"
    for number, request in enumerate(
        [
            {"do": "ask", "server": "x", "method": "tools/list"},
            {"do": "ask", "server": None, "method": "tools/list"},
            {"do": "start", "server": str(os.urandom(4)), "argv": ["/bin/touch", str(touched)]},
            {"do": "ask", "server": "018f0000-0000-7000-8000-000000000000", "method": "tools/list", "argv": ["touch"]},
        ],
        1,
    ):
        body = orjson.dumps({"id": number, **request})
        writer.write(struct.pack(">I", len(body)) + body)
        answer = orjson.loads(await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big")))
        assert answer["id"] == number
        assert answer["fault"]["code"] in {"protocol", "not_running"}
        assert answer["fault"]["sent"] is False
    writer.close()
    assert not touched.exists()
