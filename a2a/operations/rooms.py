"""Waiting rooms: for tasks that settle, and for inboxes with something in them.

Whoever waits reads no events and holds no thread. One look at the table answers all who wait in this process and of
whose task or inbox there is news, and all of them now and then, since news may be lost.
"""

import asyncio
import logging
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from uuid import UUID
from weakref import WeakKeyDictionary

from django.db.models import Count

from a2a.choices import TaskState
from a2a.models import Task
from a2a.news import notifier
from a2a.operations.desk import PAUSE, desk
from common.db.notifier import POLL_INTERVAL_SECONDS

log = logging.getLogger(__name__)
AT_WORK = (TaskState.SUBMITTED, TaskState.WORKING)
#: Which of these are worth going for, and for how many of those who wait; None is all of them.
Find = Callable[[list[UUID]], Mapping[UUID, int | None]]


async def settled(task: Task) -> None:
    """Return once the task has ended, or its agent waits for somebody."""
    if task.state in AT_WORK:
        await _room(settled_of).wait(task.pk)


async def offered(agent_id: UUID, *, takes: bool) -> None:
    """Return once something is in the inbox. Those who take are let go one for each task, the first to come first."""
    await _room(offered_to if takes else listed_to).wait(agent_id)


def settled_of(task_ids: list[UUID]) -> Mapping[UUID, int | None]:
    found = Task.objects.filter(pk__in=task_ids).exclude(state__in=AT_WORK)
    return dict.fromkeys(found.values_list("pk", flat=True))


def offered_to(agent_ids: list[UUID]) -> Mapping[UUID, int | None]:
    rows = Task.objects.filter(agent_id__in=agent_ids).offered().order_by()
    return dict(rows.values_list("agent_id").annotate(tasks=Count("pk")))


def listed_to(agent_ids: list[UUID]) -> Mapping[UUID, int | None]:
    return dict.fromkeys(offered_to(agent_ids))


class Room:
    """Who waits in one event loop for one kind of thing."""

    def __init__(self, find: Find) -> None:
        self._find = find
        self._waiting: dict[UUID, deque[asyncio.Event]] = defaultdict(deque)
        self._news: set[UUID] = set()
        self._told = asyncio.Event()
        self._looking: asyncio.Task[None] | None = None

    async def wait(self, what: UUID) -> None:
        over = asyncio.Event()
        self._waiting[what].append(over)
        try:
            with notifier.subscribe(what, partial(self._tell, [what])):
                # What happened before we listened is found by looking.
                self._tell([what])
                await over.wait()
        finally:
            self._leave(what, over)

    def _tell(self, news: Iterable[UUID]) -> None:
        if not self._waiting:
            # Word that was on its way when the last one left.
            return
        self._news.update(news)
        self._told.set()
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look())

    def _leave(self, what: UUID, over: asyncio.Event) -> None:
        self._waiting[what].remove(over)
        if not self._waiting[what]:
            del self._waiting[what]
        if not self._waiting and self._looking is not None:
            self._looking.cancel()
            self._looking = None

    async def _look(self) -> None:
        while True:
            try:
                async with asyncio.timeout(POLL_INTERVAL_SECONDS):
                    await self._told.wait()
            except TimeoutError:
                self._news.update(self._waiting)
            self._told.clear()
            # While this look is under way, those of the next gather.
            asked, self._news = self._news & self._waiting.keys(), set()
            try:
                found = await desk.do(partial(self._find, list(asked))) if asked else {}
            except Exception as error:
                # Whatever it was: who waits here has nobody else who looks.
                log.warning("Nobody could look for those who wait: %s.", type(error).__name__)
                await asyncio.sleep(PAUSE)
                self._tell(asked)
                continue
            for what, many in found.items():
                self._let_go(what, many)

    def _let_go(self, what: UUID, many: int | None) -> None:
        for over in list(self._waiting.get(what, ()))[:many]:
            over.set()


_rooms: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[Find, Room]] = WeakKeyDictionary()


def _room(find: Find) -> Room:
    rooms = _rooms.setdefault(asyncio.get_running_loop(), {})
    if find not in rooms:
        rooms[find] = Room(find)
    return rooms[find]
