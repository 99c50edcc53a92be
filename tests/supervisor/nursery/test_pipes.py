"""What an agent says and is told flows as it comes, and holds nobody up."""

import asyncio

import psutil
import pytest

from supervisor.nursery import Nursery, Usage
from tests.supervisor.nursery.agents import in_nursery, outcome, sh, spawn

pytestmark = pytest.mark.capability("SUP-02")


def test_a_flood_of_output_takes_no_memory_and_delays_nobody() -> None:
    most = 300 << 20

    async def test(nursery: Nursery) -> None:
        counted = {"out": 0, "err": 0}

        def count(which: str, data: bytes) -> None:
            counted[which] += len(data)

        def ignore(usage: Usage) -> None:
            pass

        before = psutil.Process().memory_info().rss
        flood = sh(f"head -c {most} /dev/zero & head -c 1000000 /dev/zero >&2; wait")
        child = await nursery.spawn(flood, on_output=count, on_usage=ignore)
        other, heard = await spawn(nursery, sh("while read line; do echo $line; done"))
        await other.write(b"still here\n")
        await heard.until(b"still here")
        assert counted["out"] < most
        ending = await child.ended()
        assert counted == {"out": most, "err": 1_000_000}
        assert ending.exit_code == 0
        assert psutil.Process().memory_info().rss - before < 16 << 20

    in_nursery(test)


def test_input_is_written_as_it_is_read() -> None:
    async def test(nursery: Nursery) -> None:
        text = bytes(range(256)) * 4096
        child, heard = await spawn(nursery, sh("cat"))
        await asyncio.gather(child.write(text), child.write(text))
        await child.close_stdin()
        assert (await child.ended()).exit_code == 0
        assert heard.out == text * 2

    in_nursery(test)


def test_input_that_is_never_read_waits_alone() -> None:
    async def test(nursery: Nursery) -> None:
        deaf, heard = await spawn(nursery, sh("echo ready; read line; while :; do sleep 1; done"))
        await heard.until(b"ready")
        writing = asyncio.create_task(deaf.write(b"x" * (1 << 20)))
        ending, _ = await outcome(nursery, sh("exit 5"))
        assert ending.exit_code == 5
        assert not writing.done()
        deaf.kill()
        await deaf.ended()
        await writing
        await deaf.write(b"nobody hears this")
        await deaf.close_stdin()

    in_nursery(test)


def test_an_agent_that_closes_its_input_is_written_to_in_vain() -> None:
    async def test(nursery: Nursery) -> None:
        child, heard = await spawn(nursery, sh("exec <&-; echo closed; sleep 60"))
        await heard.until(b"closed")
        await child.write(b"x" * (1 << 20))
        child.kill()
        await child.ended()

    in_nursery(test)
