"""What an agent uses is what the kernel says that it and everything it started have used."""

import os
from pathlib import Path

import pytest

from supervisor.nursery import Nursery, tree
from tests.supervisor.nursery.agents import in_nursery, outcome, python, sh, spawn

pytestmark = pytest.mark.capability("SUP-07")

#: Half of the time is spent by a child of another session that has ended by then; the memory is held for a while.
BUSY = """
import os, time
def burn(seconds):
    while time.process_time() < seconds: pass
if os.fork() == 0:
    os.setsid()
    burn(1)
    os._exit(0)
os.wait()
memory = bytearray(b"x") * (200 << 20)
burn(1)
time.sleep(0.6)
"""


def test_time_and_memory_are_those_of_the_whole_tree() -> None:
    async def test(nursery: Nursery) -> None:
        ending, heard = await outcome(nursery, python(BUSY))
        assert ending.exit_code == 0
        assert ending.cpu == pytest.approx(2, rel=0.25)
        assert ending.peak_memory == pytest.approx(200 << 20, rel=0.25)
        assert max(usage.memory for usage in heard.usages) == pytest.approx(200 << 20, rel=0.25)
        assert heard.usages[-1].cpu == pytest.approx(2, rel=0.25)
        times = [usage.cpu for usage in heard.usages]
        assert times == sorted(times)

    in_nursery(test)


def test_a_short_program_is_measured_to_its_end(tmp_path: Path) -> None:
    async def test(nursery: Nursery) -> None:
        script = "head -c 4000000 /dev/zero > file; sync file"
        ending, _ = await outcome(nursery, sh(f"setsid sh -c '{script}'; exit 0", directory=tmp_path))
        assert ending.written == pytest.approx(4_000_000, rel=0.25)
        assert 0 < ending.cpu < 1

    in_nursery(test)


@pytest.mark.parametrize("listed", [True, False])
def test_the_processes_below_one_are_found_on_every_kernel(listed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree, "LISTED", listed)

    async def test(nursery: Nursery) -> None:
        child, heard = await spawn(nursery, sh("(sleep 60 & (sleep 60 & echo ready; wait) & wait) & wait"))
        await heard.until(b"ready")
        found = tree.below(child.pid)
        assert [tree.stat(pid)[0] for pid in found] == [b"S"] * 4
        assert tree.children(child.pid) == found[:1]
        assert int(tree.stat(found[0])[1]) == child.pid
        assert {*found} < {*tree.below(os.getpid())}
        assert tree.kill(*found, sparing_roots=False) == {*found}
        assert (await child.ended()).exit_code == 0

    in_nursery(test)
