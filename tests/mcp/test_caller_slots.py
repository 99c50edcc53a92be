"""A caller occupies a few calls of a process while others call, and as many as it likes when it calls alone."""

import asyncio
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from mcp import caller_slots
from mcp.caller_slots import CallerSlots
from mcp.clerk.words import CallerOverloaded
from tests.mcp.scene import run

pytestmark = [pytest.mark.capability("MCP-09")]
A, B = UUID(int=1), UUID(int=2)
MANY = 20


@pytest.fixture(autouse=True)
def _only_an_end_gives_a_slot_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(caller_slots, "SLOT_SECONDS", 60.0)
    monkeypatch.setattr(caller_slots, "CONTENDED_SECONDS", 60.0)


class Stage:
    """Calls that stay until they are let go."""

    def __init__(self) -> None:
        self.slots, self.inside, self.go_on = CallerSlots(), list[Any](), asyncio.Event()

    async def call(self, caller: Any) -> None:
        async with self.slots.slot(caller):
            self.inside.append(caller)
            await self.go_on.wait()

    async def begin(self, caller: Any, count: int = 1) -> list["asyncio.Task[None]"]:
        tasks = [asyncio.create_task(self.call(caller)) for _ in range(count)]
        await asyncio.sleep(0)
        return tasks


def stage(work: Callable[[Stage], Any]) -> None:
    async def staged() -> None:
        await work(Stage())

    run(staged())


def test_alone_there_is_no_limit() -> None:
    async def work(stage: Stage) -> None:
        await stage.begin(A, MANY)
        assert len(stage.inside) == MANY

    stage(work)


def test_beside_another_a_caller_has_its_slots_and_the_other_goes_on() -> None:
    async def work(stage: Stage) -> None:
        await stage.begin(B)
        flood = await stage.begin(A, MANY)
        assert stage.inside.count(A) == caller_slots.MAX_ACTIVE
        await stage.begin(B)
        assert stage.inside.count(B) == 2
        stage.go_on.set()
        await asyncio.gather(*flood)
        assert stage.inside.count(A) == MANY

    stage(work)


def test_whoever_is_not_known_yet_slows_nobody() -> None:
    async def work(stage: Stage) -> None:
        await stage.begin(("unknown", "10.0.0.1"))
        await stage.begin(A, MANY)
        assert stage.inside.count(A) == MANY

    stage(work)


def test_past_its_line_a_caller_is_refused_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(caller_slots, "MAX_WAITING", 3)

    async def work(stage: Stage) -> None:
        await stage.begin(B)
        await stage.begin(A, caller_slots.MAX_ACTIVE + 3)
        with pytest.raises(CallerOverloaded) as refused:
            await stage.call(A)
        assert (refused.value.code, refused.value.retry_after) == ("overloaded", 1)
        await stage.begin(B)
        assert stage.inside.count(B) == 2

    stage(work)


def test_a_call_that_waits_for_its_server_gives_its_slot_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(caller_slots, "SLOT_SECONDS", 0.0)

    async def work(stage: Stage) -> None:
        await stage.begin(B)
        await stage.begin(A, MANY)
        async with asyncio.timeout(10):
            while stage.inside.count(A) < MANY:
                await asyncio.sleep(0)

    stage(work)


def test_who_waited_too_long_is_told_to_come_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(caller_slots, "MAX_WAIT_SECONDS", -1.0)

    async def work(stage: Stage) -> None:
        await stage.begin(B)
        flood = await stage.begin(A, MANY)
        stage.go_on.set()
        ended = await asyncio.gather(*flood, return_exceptions=True)
        assert sum(isinstance(end, CallerOverloaded) for end in ended) == MANY - caller_slots.MAX_ACTIVE

    stage(work)


def test_who_leaves_the_line_takes_no_slot_along() -> None:
    async def work(stage: Stage) -> None:
        await stage.begin(B)
        flood = await stage.begin(A, MANY)
        for task in flood[caller_slots.MAX_ACTIVE : -1]:
            task.cancel()
        stage.go_on.set()
        await asyncio.gather(*flood, return_exceptions=True)
        assert stage.inside.count(A) == caller_slots.MAX_ACTIVE + 1
        stage.go_on.clear()
        await stage.begin(A, MANY)
        assert stage.inside.count(A) == 2 * caller_slots.MAX_ACTIVE + 1

    stage(work)
