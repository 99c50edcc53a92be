"""A web process keeps its threads on one processor, and on whichever has time."""

import asyncio
import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from common.process import cpu_affinity
from common.process.cpu_affinity import CpuPinner, get_current_cpu, pin_threads
from tests.nhi.load.webs import running

ALLOWED = os.sched_getaffinity(0)
pytestmark = [
    pytest.mark.capability("OPS-01"),
    pytest.mark.skipif(len(ALLOWED) < 2, reason="this machine has one processor for us"),
]


@pytest.fixture(autouse=True)
def _let_go() -> Iterator[None]:
    yield
    pin_threads(ALLOWED)


def places(pid: int) -> list[set[int]]:
    """Where each thread of a process may run."""
    found = []
    for thread in Path(f"/proc/{pid}/task").iterdir():
        with suppress(ProcessLookupError):
            found.append(os.sched_getaffinity(int(thread.name)))
    return found


def test_a_web_process_stays_on_one(tmp_path: Path, broker: str) -> None:
    with running(tmp_path, broker, 1) as webs:
        deadline = time.monotonic() + 20
        while True:
            found = places(webs.processes[0].pid)
            if all(len(place) == 1 for place in found):
                break
            assert time.monotonic() < deadline, found
            time.sleep(0.05)
    assert len(found) > 2
    assert all(place == found[0] for place in found)


def test_a_web_process_stays_nowhere_when_told_so(tmp_path: Path, broker: str) -> None:
    with running(tmp_path, broker, 1, ONE_PROCESSOR="0") as webs:
        for _ in range(10):
            assert all(place == ALLOWED for place in places(webs.processes[0].pid))
            time.sleep(0.05)


def test_threads_that_are_there_and_threads_to_come_go_along() -> None:
    with ThreadPoolExecutor(1) as there, ThreadPoolExecutor(1) as later:
        there.submit(threading.get_native_id).result()
        for one in sorted(ALLOWED):
            pin_threads({one})
            assert there.submit(os.sched_getaffinity, 0).result() == {one}
            assert later.submit(get_current_cpu).result() == one


def test_it_is_let_go_again_and_again_and_stays_where_it_was_put(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu_affinity, "PINNING_INTERVAL", 0.01)
    told: list[set[int]] = []
    monkeypatch.setattr(cpu_affinity, "pin_threads", lambda where: told.append(where) or pin_threads(where))

    async def for_a_while() -> None:
        keeping = asyncio.create_task(CpuPinner().run())
        while len(told) < 6:
            await asyncio.sleep(0.01)
        keeping.cancel()

    asyncio.run(for_a_while())
    assert told[0:6:2] == [ALLOWED] * 3
    assert all(len(where) == 1 and where < ALLOWED for where in told[1:6:2])


def test_one_that_may_not_go_where_it_began_is_left_to_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu_affinity, "PINNING_INTERVAL", 0.01)
    asked: list[set[int]] = []

    def refused(where: set[int]) -> None:
        asked.append(where)
        raise OSError(22, "Invalid argument")

    monkeypatch.setattr(cpu_affinity, "pin_threads", refused)

    async def for_a_while() -> None:
        keeping = asyncio.create_task(CpuPinner().run())
        while len(asked) < 3:
            await asyncio.sleep(0.01)
        assert not keeping.done()
        keeping.cancel()

    asyncio.run(for_a_while())
    assert os.sched_getaffinity(0) == ALLOWED


def test_it_goes_where_somebody_puts_it_meanwhile_and_stays_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu_affinity, "PINNING_INTERVAL", 0.01)
    told: list[set[int]] = []
    monkeypatch.setattr(cpu_affinity, "pin_threads", lambda where: told.append(where) or pin_threads(where))

    async def for_a_while() -> set[int]:
        keeping = asyncio.create_task(CpuPinner().run())
        while len(told) < 2:
            await asyncio.sleep(0.005)
        other = ALLOWED - told[1]
        pin_threads({min(other)})
        told.clear()
        await asyncio.sleep(0.1)
        keeping.cancel()
        return other

    other = asyncio.run(for_a_while())
    assert os.sched_getaffinity(0) == {min(other)}
    assert told == []
