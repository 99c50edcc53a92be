"""A run that passes a limit on what its processes may have together is ended; one that shares what it has is not."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from supervisor.nursery import MEGABYTE, Command, Limits, Nursery, tree
from tests.supervisor.nursery.agents import (
    ACCOUNTS,
    NOBODY,
    a_long_time,
    alive,
    in_nursery,
    keeper,
    outcome,
    python,
    sh,
    spawn,
    until,
)  # fmt: skip

pytestmark = pytest.mark.capability("SUP-02", "SUP-04")

#: One that every account may run, as this one need not be.
PYTHON = shutil.which("python3", path=os.defpath) or "python3"
REPOSITORY = Path(__file__).parents[3]
#: Takes so many megabytes, says so, and stays.
TAKES = """
import sys, time
held = bytearray(b"x") * (int(sys.argv[1]) << 20)
print("taken", flush=True)
time.sleep(float(sys.argv[2]))
"""
#: The same by children that share nothing, each in a session of its own.
SPREADS = f"""
import os
for _ in range(5):
    if os.fork() == 0:
        os.setsid()
        break
else:
    os.wait()
{TAKES}"""
#: Children that have all that their parent has, until it has none.
SHARES = """
import os, sys, time
held = bytearray(b"x") * (int(sys.argv[1]) << 20)
for _ in range(5):
    if os.fork() == 0:
        time.sleep(60)
print("taken", flush=True)
sys.stdin.read()
"""
#: Its first thread ends; what goes on has no line of memory under the process's own number.
HIDES = """
import ctypes, os, sys, threading, time
def take():
    while open(f"/proc/{os.getpid()}/stat").read().split()[2] != "Z":
        time.sleep(0.01)
    held = bytearray(b"x") * (int(sys.argv[1]) << 20)
    time.sleep(float(sys.argv[2]))
threading.Thread(target=take).start()
ctypes.CDLL(None).syscall(60, 0)
"""
#: Its children are in nobody's books once they have ended.
DISOWNS = """
import os, signal, time
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
for _ in range(int(os.environ["CHILDREN"])):
    if os.fork() == 0:
        while time.process_time() < 0.3:
            pass
        os._exit(0)
    try:
        os.wait()
    except ChildProcessError:
        pass
"""
SPINS = "import os\nos.fork() or os.setsid()\nwhile True: pass"


def takes(script: str, megabytes: int, marker: str = "60", *, most: int | None, uid: int | None = None) -> Command:
    limits = Limits(memory=None if most is None else most * MEGABYTE)
    words = (PYTHON, *python(script).argv[1:], str(megabytes), marker)
    return sh("", argv=words, limits=limits, uid=uid)


@pytest.mark.parametrize("uid", ACCOUNTS)
@pytest.mark.parametrize(
    ("script", "each"), [(TAKES, 300), (SPREADS, 60), (HIDES, 300)], ids=["alone", "spread", "hidden"]
)
def test_a_run_that_takes_too_much_memory_is_ended(script: str, each: int, uid: int | None) -> None:
    async def test(nursery: Nursery) -> None:
        marker = a_long_time()
        ending, heard = await outcome(nursery, takes(script, each, marker, most=100, uid=uid))
        assert (ending.exceeded, ending.signal, ending.lost) == ("memory", signal.SIGKILL, False)
        assert 100 * MEGABYTE < ending.used < 400 * MEGABYTE
        assert ending.peak_memory >= ending.used
        # Its last figures are those for which it was ended.
        assert heard.usages[-1].memory > 90 * MEGABYTE
        assert alive(marker) == []

    in_nursery(test)


@pytest.mark.parametrize("most", [100, None])
def test_a_run_below_its_limits_goes_on(most: int | None) -> None:
    async def test(nursery: Nursery) -> None:
        ending, heard = await outcome(nursery, takes(TAKES, 50 if most else 150, "0.3", most=most))
        assert (ending.exceeded, ending.used, ending.exit_code, heard.out) == ("", 0, 0, b"taken\n")

    in_nursery(test)


@pytest.mark.parametrize("uid", ACCOUNTS)
def test_what_processes_share_is_counted_once(uid: int | None) -> None:
    async def test(nursery: Nursery) -> None:
        child, heard = await spawn(nursery, takes(SHARES, 80, most=200, uid=uid))
        await until(lambda: any(usage.memory > 400 * MEGABYTE for usage in heard.usages), "all were counted in full")
        seen = len(heard.usages)
        await until(lambda: len(heard.usages) > seen, "it was looked at again")
        await child.close_stdin()
        ending = await child.ended()
        assert (ending.exceeded, ending.exit_code) == ("", 0)

    in_nursery(test)


#: Without the right to trace, which containers take from root, a nursery that root has starts a run as somebody else.
WITHOUT_RIGHTS = """
import ctypes
PR_CAPBSET_DROP, CAP_SYS_PTRACE, CAP_SYS_ADMIN, CAP_PERFMON = 24, 19, 21, 38
for right in (CAP_SYS_PTRACE, CAP_SYS_ADMIN, CAP_PERFMON):
    assert ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, right, 0, 0, 0) == 0
from tests.supervisor.nursery import test_limits
test_limits.test_what_processes_share_is_counted_once(test_limits.NOBODY)
print("fine")
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="root alone changes accounts")
def test_what_processes_share_is_counted_once_by_a_root_that_may_not_trace() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT_RIGHTS], cwd=REPOSITORY, capture_output=True, check=False)
    assert done.stdout == b"fine\n", done.stderr.decode()


@pytest.mark.skipif(os.geteuid() != 0, reason="root alone changes accounts")
def test_a_keeper_that_looks_as_its_run_does_is_out_of_its_reach() -> None:
    """Neither signals nor a look at what it holds: it has been told the variables of the run."""

    async def test(nursery: Nursery) -> None:
        child, heard = await spawn(nursery, sh("read go; kill -9 $PPID; cat /proc/$PPID/maps; echo still", uid=NOBODY))
        status = tree.read(f"/proc/{keeper(child).pid}/status").decode()
        assert f"Uid:\t0\t0\t0\t{NOBODY}\n" in status
        await child.write(b"go\n")
        await heard.until(b"still")
        assert (await child.ended()).lost is False
        assert heard.err.count(b"ermi") == 2  # not permitted, permission denied
        assert heard.out == b"still\n"

    in_nursery(test)


def test_a_run_that_uses_too_much_of_the_processor_is_ended() -> None:
    async def test(nursery: Nursery) -> None:
        ending, _ = await outcome(nursery, python(SPINS, limits=Limits(cpu=1)))
        assert (ending.exceeded, ending.signal) == ("cpu", signal.SIGKILL)
        assert 1 < ending.used < 3
        assert ending.cpu >= ending.used

    in_nursery(test)


def disowns(children: int, *, most: int | None) -> Command:
    return python(DISOWNS, environment={"CHILDREN": str(children)}, limits=Limits(cpu=most))


def test_children_that_nobody_waits_for_are_counted_too() -> None:
    async def test(nursery: Nursery) -> None:
        ending, heard = await outcome(nursery, disowns(60, most=1))
        assert (ending.exceeded, ending.signal) == ("cpu", signal.SIGKILL)
        assert 1 < ending.used < 3
        assert ending.cpu >= ending.used
        used = [usage.cpu for usage in heard.usages]
        assert used == sorted(used)

    in_nursery(test)


def test_a_run_that_may_use_all_it_wants_is_told_what_such_children_used() -> None:
    async def test(nursery: Nursery) -> None:
        ending, _ = await outcome(nursery, disowns(5, most=None))
        assert (ending.exceeded, ending.exit_code) == ("", 0)
        assert ending.cpu > 0.5

    in_nursery(test)


def test_a_tally_counts_each_process_once_and_remembers_few(monkeypatch: pytest.MonkeyPatch) -> None:
    from supervisor.nursery import measuring

    books: dict[int, tuple[int, int]] = {}

    def stat(pid: int) -> list[bytes]:
        start, ticks = books.get(pid, (0, 0))
        return [b"%d" % {11: ticks, 12: ticks, 19: start}.get(field, 0) for field in range(22)] if start else []

    monkeypatch.setattr(tree, "stat", stat)
    tally = measuring.Tally()

    def look(*pids: int) -> float:
        tally.look(pids)
        return tally.seconds * measuring.TICKS

    books.update({1: (7, 10), 2: (7, 30)})
    assert look(1, 2) == 80
    assert look(1) == 80, "what has ended stays"
    assert look(1, 2) == 80, "what was overlooked once is no other"
    books.update({1: (7, 11), 2: (8, 1)})
    assert look(1, 2) == 84, "a number that was given again is another process"
    books.update(dict.fromkeys(range(10, 2000), (9, 1)))
    for pid in range(10, 2000):
        tally.look([1, pid])
    assert look(1) == 84 + 2 * 1990
    assert len(tally._seen) <= measuring.KNOWN + 2


def test_the_kernel_ends_what_a_keeper_does_not_get_to() -> None:
    """One that is stopped looks at nothing."""

    async def test(nursery: Nursery) -> None:
        child, _ = await spawn(nursery, python("while True: pass", limits=Limits(cpu=1), rules="CPU=2"))
        own = keeper(child)
        own.suspend()
        await until(lambda: tree.stat(child.pid)[0] == b"Z", "the kernel ended it")
        own.resume()
        ending = await child.ended()
        assert (ending.exceeded, ending.signal) == ("cpu", signal.SIGKILL)

    in_nursery(test)


def test_a_fair_count_is_not_made_at_every_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """It walks through every page, and its keeper has others beside it on the same processor."""
    from supervisor.nursery import limits, measuring

    counted: list[int] = []
    monkeypatch.setattr(measuring, "resident", lambda _: 300)
    monkeypatch.setattr(measuring, "share", lambda pid: counted.append(pid) or 50)
    now = [10.0]
    monkeypatch.setattr(limits.time, "monotonic", lambda: now.__setitem__(0, now[0] + 0.01) or now[0])
    watch = limits.LimitWatch(processes=9, memory=100, cpu=None)
    for _ in range(5):
        watch.look([1])
    assert counted == [1]
    now[0] += limits.LONGEST_REST
    watch.look([1])
    assert (counted, watch.exceeded, watch.peak) == ([1, 1], "", 300)
