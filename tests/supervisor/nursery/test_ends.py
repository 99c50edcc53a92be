"""Whatever ends an agent ends everything that it started, however well that hides."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from supervisor.nursery import Child, Limits, Nursery
from tests.supervisor.nursery.agents import (
    ACCOUNTS,
    a_long_time,
    alive,
    in_nursery,
    keeper,
    living,
    outcome,
    own_processes,
    python,
    sh,
    spawn,
    until,
)  # fmt: skip

pytestmark = pytest.mark.capability("SUP-04")

REPOSITORY = Path(__file__).parents[3]
#: Deaf to being asked, in sessions of their own, with nothing in the environment, and with parents that are no more.
FAMILY = """
trap '' TERM
setsid env -i sleep {time} &
(setsid sh -c "env -i setsid sleep {time} & sleep {time} & exit" &)
(kill -STOP $(exec sh -c 'echo $PPID'); sleep {time}) &
echo started
sleep {time}
"""
#: Of the family, all but who stopped itself before it came to sleeping.
SLEEPERS = 4


async def family(nursery: Nursery, uid: int | None = None) -> tuple[Child, str]:
    """A family that is all there, and what to know it by."""
    marker = a_long_time()
    child, _ = await spawn(nursery, sh(FAMILY.format(time=marker), uid=uid))
    await until(lambda: len(alive(marker)) == SLEEPERS, "the family was there")
    return child, marker


@pytest.mark.parametrize("uid", ACCOUNTS)
def test_what_does_not_end_when_asked_is_killed_after_the_grace(uid: int | None) -> None:
    async def test(nursery: Nursery) -> None:
        child, marker = await family(nursery, uid)
        asked = time.time()
        child.end(0.3)
        ending = await child.ended()
        assert alive(marker) == []
        assert (ending.exit_code, ending.signal, ending.lost) == (None, signal.SIGKILL, False)
        assert ending.leftovers >= SLEEPERS
        assert ending.term_at is not None and ending.kill_at is not None
        assert asked <= ending.term_at <= ending.kill_at - 0.3

    in_nursery(test)


def test_whoever_ends_when_asked_is_not_killed() -> None:
    async def test(nursery: Nursery) -> None:
        marker = a_long_time()
        # The grandchild takes longer than its parent, and may; the stopped one hears it as well.
        grandchild = (
            f"trap 'sleep 0.2; echo grandchild; exit' TERM; echo ready; while :; do sleep 0.01; done # {marker}"
        )
        script = f'trap "echo child; exit 7" TERM; setsid sh -c "{grandchild}" & kill -STOP $$; wait'
        child, heard = await spawn(nursery, sh(script))
        await heard.until(b"ready")
        child.end(30)
        ending = await child.ended()
        assert (ending.exit_code, ending.signal) == (7, None)
        assert heard.out == b"ready\nchild\ngrandchild\n"
        assert ending.leftovers == 0
        assert ending.term_at is not None and ending.kill_at is None

    in_nursery(test)


@pytest.mark.parametrize("uid", ACCOUNTS)
def test_killing_it_needs_no_grace(uid: int | None) -> None:
    async def test(nursery: Nursery) -> None:
        child, marker = await family(nursery, uid)
        child.kill()
        child.kill()
        first, second = await asyncio.gather(child.ended(), child.ended())
        assert first == second
        assert (first.signal, first.lost) == (signal.SIGKILL, False)
        assert alive(marker) == []

    in_nursery(test)


def test_a_child_that_holds_the_output_does_not_outlive_the_agent() -> None:
    async def test(nursery: Nursery) -> None:
        marker = a_long_time()
        ending, heard = await outcome(nursery, sh(f"sleep {marker} & setsid sleep {marker} & echo done; exit 3"))
        assert (ending.exit_code, ending.leftovers, heard.out) == (3, 2, b"done\n")
        assert alive(marker) == []

    in_nursery(test)


#: Its child traces it, which keeps the dead from being reaped by anybody else.
TRACED = """
import ctypes, os, time
PTRACE_SEIZE = 0x4206
heard, told = os.pipe()
if os.fork() == 0:
    result = ctypes.CDLL(None).ptrace(PTRACE_SEIZE, os.getppid(), 0, 0)
    os.write(told, b"%d" % result)
    time.sleep(60)
assert os.read(heard, 9) == b"0"
os._exit(6)
"""


def test_a_child_that_clings_to_the_dead_is_killed_too() -> None:
    async def test(nursery: Nursery) -> None:
        ending, heard = await outcome(nursery, python(TRACED))
        assert (ending.exit_code, ending.leftovers, heard.err) == (6, 1, b"")

    in_nursery(test)


#: With `deaf`, it is no longer reading what keepers have said when it is killed.
WORKER = """
import asyncio, fcntl, sys, termios, time
from supervisor.nursery import Nursery
from tests.supervisor.nursery.test_ends import family

def unread(child):
    return any(fcntl.ioctl(child._control._end, termios.FIONREAD, bytes(4)))

async def work():
    nursery = Nursery()
    families = [await family(nursery) for _ in range(2)]
    if sys.argv[1] == "deaf":
        while not all(unread(child) for child, _ in families):
            time.sleep(0.01)
    for _, marker in families:
        print(marker, flush=True)
    time.sleep(600) if sys.argv[1] == "deaf" else await asyncio.Event().wait()

asyncio.run(work())
"""


@pytest.mark.parametrize(("manner", "without"), [("hearing", "nothing"), ("deaf", "nothing"), ("deaf", "its nursery")])
def test_nothing_outlives_a_worker_that_is_killed(manner: str, without: str) -> None:
    async def test() -> None:
        with subprocess.Popen([sys.executable, "-c", WORKER, manner], cwd=REPOSITORY, stdout=subprocess.PIPE) as worker:
            assert worker.stdout
            markers = [worker.stdout.readline().decode().strip() for _ in range(2)]
            assert all(len(alive(marker)) == SLEEPERS for marker in markers)
            (program,) = psutil.Process(worker.pid).children()
            everyone = program.children(recursive=True)
            if without == "its nursery":
                program.kill()
            worker.kill()
        await until(lambda: not any(living(process) for process in everyone), "all ended with the worker")
        assert not any(alive(marker) for marker in markers)

    asyncio.run(test())


def test_a_nursery_that_is_killed_takes_no_agent_along_and_is_replaced() -> None:
    async def test(nursery: Nursery) -> None:
        child, marker = await family(nursery)
        program = keeper(child).parent()
        assert program
        program.kill()
        ending, heard = await outcome(nursery, sh("echo another"))
        assert (ending.exit_code, heard.out) == (0, b"another\n")
        assert len(alive(marker)) == SLEEPERS
        child.kill()
        assert (await child.ended()).lost is False
        assert alive(marker) == []

    in_nursery(test)


def test_a_keeper_that_is_killed_leaves_nothing_behind() -> None:
    async def test(nursery: Nursery) -> None:
        child, marker = await family(nursery)
        other, others_marker = await family(nursery)
        keeper(child).kill()
        ending = await child.ended()
        assert (ending.lost, ending.exit_code, ending.signal) == (True, None, None)
        await until(lambda: alive(marker) == [], "the family of the lost keeper ended")
        assert len(alive(others_marker)) == SLEEPERS
        other.kill()
        assert (await other.ended()).lost is False

    in_nursery(test)


#: The first ends as soon as it may have no more processes; the others go on without it.
BOMBS = {
    "a short fuse": "b() { while :; do b & b; done; }; b",
    "a long one": "b() { while :; do setsid sleep $0 & b & done; }; b & sleep 60",
}


@pytest.mark.parametrize("bomb", BOMBS)
@pytest.mark.skipif(os.geteuid() != 0, reason="only another account can be given so few processes")
def test_a_fork_bomb_loses(bomb: str) -> None:
    async def test(nursery: Nursery) -> None:
        bystander, heard = await spawn(nursery, sh("while read line; do echo heard $line; done"))
        marker = a_long_time()
        # The kernel counts all processes of an account, so that a bomb beside this one would take its share.
        account = 60_000 + os.getpid() % 4_000
        ending, _ = await outcome(
            nursery,
            sh("", argv=("/bin/sh", "-c", BOMBS[bomb], marker), uid=account, gid=account, rules="NPROC=400"),
        )
        assert ending.exceeded == "processes"
        assert alive(marker) == []
        await bystander.write(b"you\n")
        await heard.until(b"heard you")

    in_nursery(test)


def test_a_run_with_as_many_processes_as_it_may_have_goes_on() -> None:
    async def test(nursery: Nursery) -> None:
        ending, heard = await outcome(nursery, sh("sleep 0.6 & sleep 0.6 & wait", limits=Limits(processes=3)))
        assert (ending.exceeded, ending.exit_code) == ("", 0)
        assert max(usage.processes for usage in heard.usages) == 3
        ending, _ = await outcome(nursery, sh("sleep 60 & sleep 60 & wait", limits=Limits(processes=2)))
        assert (ending.exceeded, ending.used, ending.signal) == ("processes", 3, signal.SIGKILL)

    in_nursery(test)


def test_closing_the_nursery_ends_everything() -> None:
    markers = []

    async def test(nursery: Nursery) -> None:
        markers.extend([(await family(nursery))[1] for _ in range(2)])

    in_nursery(test)
    assert not any(alive(marker) for marker in markers)


def test_whoever_stops_waiting_for_an_agent_stops_it() -> None:
    async def test(nursery: Nursery) -> None:
        marker = a_long_time()
        before = own_processes()
        for pause in (0, 0.001, 0.003):
            spawning = asyncio.create_task(spawn(nursery, sh(f"sleep {marker}")))
            await asyncio.sleep(pause)
            if not spawning.done():
                spawning.cancel()
        await until(lambda: own_processes() != before, "the nursery was there")
        await nursery.close()
        assert alive(marker) == []

    in_nursery(test)
