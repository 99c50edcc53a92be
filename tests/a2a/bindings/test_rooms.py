"""Who waits is woken by news alone, from another connection as from another process; and only who is needed."""

import asyncio
import threading
from collections import deque
from collections.abc import Iterator
from uuid import UUID

import pytest
from django.db import InternalError, OperationalError

from a2a.choices import TaskState
from a2a.models import Task
from a2a.news import CHANGES, notifier
from a2a.operations import rooms
from a2a.operations.desk import desk
from common.db.notifier import Notifier
from common.ids import uuid7
from tests.a2a.bindings.conftest import Agent, in_loop, run_in_thread, says
from tests.services.asgi import LONGEST

pytestmark = [pytest.mark.capability("A2A-05", "A2A-07"), pytest.mark.both_databases]


@pytest.fixture(autouse=True)
def _nothing_but_news(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No look that finds by itself what no news was heard of."""
    monkeypatch.setattr(rooms, "POLL_INTERVAL_SECONDS", 100 * LONGEST)
    yield
    desk.close()
    notifier.close()


def test_an_end_that_another_connection_writes_is_heard_of(agent: Agent) -> None:
    async def whole() -> None:
        task = await run_in_thread(lambda: Task.objects.get(pk=agent.stage.sent()))
        waiting = asyncio.create_task(rooms.settled(task))
        await run_in_thread(lambda: says(str(task.pk), TaskState.WORKING, "At it"))
        await run_in_thread(agent.stage.sent)
        assert not waiting.done()
        await run_in_thread(lambda: says(str(task.pk), TaskState.COMPLETED))
        await waiting

    in_loop(whole())


def test_what_settled_before_one_waits_keeps_nobody(agent: Agent) -> None:
    async def whole() -> None:
        task = await run_in_thread(lambda: Task.objects.get(pk=agent.stage.sent()))
        await run_in_thread(lambda: says(str(task.pk), TaskState.FAILED))
        # As it was read before it failed, and as it is.
        await rooms.settled(task)
        await rooms.settled(await run_in_thread(lambda: Task.objects.get(pk=task.pk)))

    in_loop(whole())


def test_who_takes_and_who_lists_hear_of_a_task(agent: Agent) -> None:
    async def whole() -> None:
        inbox = agent.stage.writer.pk
        waiting = [asyncio.create_task(rooms.offered(inbox, takes=takes)) for takes in (True, False, False)]
        await run_in_thread(agent.stage.sent)
        await asyncio.gather(*waiting)

    in_loop(whole())


def test_of_those_who_would_take_so_many_go_as_there_are_tasks() -> None:
    """The first to come first: nobody else asks for what others take."""
    inbox, offers, looks = uuid7(), deque([0, 2, 1]), asyncio.Queue[int]()

    async def whole() -> None:
        loop = asyncio.get_running_loop()

        def find(asked: list[UUID]) -> dict[UUID, int | None]:
            found = offers.popleft()
            loop.call_soon_threadsafe(looks.put_nowait, found)
            return {inbox: found}

        room = rooms.Room(find)
        waiting = [asyncio.create_task(room.wait(inbox)) for _ in range(4)]
        assert await looks.get() == 0
        notifier.wake(inbox)
        await asyncio.gather(*waiting[:2])
        assert not any(one.done() for one in waiting[2:])
        notifier.wake(inbox)
        await waiting[2]
        assert not waiting[3].done()
        waiting[3].cancel()

    in_loop(whole())


def test_the_last_who_leaves_leaves_nothing_behind(agent: Agent) -> None:
    async def whole() -> None:
        waiting = asyncio.create_task(rooms.offered(agent.stage.writer.pk, takes=True))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])
        await asyncio.sleep(0)
        assert [task for task in asyncio.all_tasks() if task is not asyncio.current_task()] == []

    in_loop(whole())


@pytest.mark.parametrize("trouble", [OperationalError, InternalError, RuntimeError])
def test_a_look_that_fails_is_followed_by_another(monkeypatch: pytest.MonkeyPatch, trouble: type[Exception]) -> None:
    monkeypatch.setattr(rooms, "PAUSE", 0.01)
    inbox = uuid7()
    looks: list[Exception | dict[UUID, int | None]] = [trouble("odd"), trouble("odd"), {inbox: None}]

    def find(asked: list[UUID]) -> dict[UUID, int | None]:
        found = looks.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    in_loop(rooms.Room(find).wait(inbox))
    assert looks == []


def test_where_no_thread_can_be_started_the_next_who_waits_tries_again(monkeypatch: pytest.MonkeyPatch) -> None:
    crowded, what = Notifier("a2a_news", CHANGES, thread_name="crowded"), uuid7()

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    async def listens() -> bool:
        with crowded.subscribe(what, lambda: None):
            return crowded._listener is not None and crowded._listener.is_alive()

    with monkeypatch.context() as patch, pytest.raises(RuntimeError):
        patch.setattr(threading.Thread, "start", refuse)
        asyncio.run(listens())
    assert not crowded._callbacks
    assert asyncio.run(listens())
    crowded.close()
