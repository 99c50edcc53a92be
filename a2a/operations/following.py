"""Following a task: every event once, in order, whichever process writes it, without a thread or a connection each.

One look at the table serves all who follow in this process, and one read serves all who follow the same task.
"""

import asyncio
import logging
import threading
import time
from collections import Counter, deque
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import UUID
from weakref import WeakKeyDictionary

from django.db import connection, transaction
from django.db.models import BigIntegerField, RowRange, Sum, Window
from django.db.models.functions import Coalesce

from a2a import showing
from a2a.choices import OPEN, TaskState
from a2a.models import Task, TaskEvent
from a2a.news import notifier
from a2a.operations.answers import Began
from a2a.operations.desk import AWAY, PAUSE, desk
from a2a.wire.faults import Fault, Kind
from common.db.notifier import POLL_INTERVAL_SECONDS
from common.errors import RateLimited
from common.fastsql.compiled_queries import PreparedQuery

log = logging.getLogger(__name__)
ASKED = frozenset({"TASK_STATE_INPUT_REQUIRED"})
ENDED = frozenset(f"TASK_STATE_{state.upper()}" for state in TaskState if state not in OPEN)
#: Events that are kept for those who come a little behind, and bytes of them; the last one is, however large.
KEPT, KEPT_BYTES = 256, 1024 * 1024
#: Events that are read at a time; and what their bytes together are less than but for the last, so that whoever is slow
#: holds no more of them.
PAGE, PAGE_BYTES = 200, 1024 * 1024
#: What an event of unknown size counts for.
UNKNOWN = 64 * 1024


_BEFORE = Window(
    Sum(Coalesce("size", UNKNOWN)), order_by="seq", frame=RowRange(start=None, end=-1), output_field=BigIntegerField()
)
#: They are numbered without gaps.
_EVENTS = PreparedQuery(
    lambda task, after, until: TaskEvent.objects.filter(task_id=task, seq__gt=after, seq__lte=until)
    .annotate(weight=Coalesce("size", UNKNOWN), before=Coalesce(_BEFORE, 0, output_field=BigIntegerField()))
    .filter(before__lt=PAGE_BYTES).order_by("seq")
    .values_list("seq", "body", "weight"),
    task=UUID, after=int, until=int,
)  # fmt: skip


_LAST = PreparedQuery(
    lambda task: Task.objects.filter(pk=task).values_list("last_seq", flat=True).order_by(), task=UUID
)


class TooManyStreams(RateLimited):
    code = "too_many_streams"

    def __init__(self, most: int) -> None:
        super().__init__(f"You follow {most} tasks at once, which is as many as may be. End one first.", retry_after=15)


@dataclass(frozen=True)
class Item:
    """One thing to tell; without a number where it is how things stand and no event."""

    seq: int | None
    body: dict[str, Any]
    size: int = 0

    @property
    def state(self) -> str:
        told = self.body.get("statusUpdate") or self.body.get("task") or {}
        return str(told.get("status", {}).get("state", ""))


class Streams:
    """How many each caller has here. One is counted before anything is done for it: who is refused has sent nothing."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[UUID] = Counter()

    def take(self, caller_id: UUID, *, most: int) -> None:
        with self._lock:
            if self._counts[caller_id] >= most:
                raise TooManyStreams(most)
            self._counts[caller_id] += 1

    def give_back(self, caller_id: UUID) -> None:
        with self._lock:
            self._counts[caller_id] -= 1
            if not self._counts[caller_id]:
                del self._counts[caller_id]


streams = Streams()


async def follow(began: Began, *, after: int | None, quiet: float) -> AsyncGenerator[Item | None, None]:
    """From the beginning, from how the task stands, or from behind an event; None after each `quiet` seconds."""
    async with _feed(began.task.pk) as feed:
        cursor = 0 if began.from_start else after
        if cursor is None:
            first = await desk.do(partial(snapshot, began))
            cursor, ends = first.seq or 0, _is_last(first, began)
            yield first
            # It may be as large as all that follows.
            del first
            if ends:
                return
        elif cursor >= began.task.last_seq:
            refuse_ended(began.task)
            # Whoever says to have seen what is still to come would wait for ever.
            cursor = min(cursor, began.task.last_seq)
            # There is nothing to tell for now; that they are listened to, callers hear at once.
            yield None
        due = time.monotonic() + quiet
        while True:
            for item in await feed.behind(cursor, patience=due - time.monotonic()):
                cursor = item.seq or cursor
                if "message" in item.body:
                    # What callers say is known to them; told back to them it would look like an answer.
                    continue
                yield item
                if _is_last(item, began):
                    return
            if time.monotonic() >= due:
                due = time.monotonic() + quiet
                yield None


def snapshot(began: Began) -> Item:
    """How a task stands, with the number of the last event that made it so."""
    with transaction.atomic():
        if connection.vendor == "postgresql":
            with connection.cursor() as cursor:
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        task = Task.objects.get(pk=began.task.pk)
        if not began.ends_when_asked:
            refuse_ended(task)
        return Item(task.last_seq, {"task": showing.task(task)})


def refuse_ended(task: Task) -> None:
    """Whoever comes when all is over is told so; there is nothing to follow."""
    if not task.is_open:
        raise Fault(Kind.UNSUPPORTED, f"The {task} has ended: there is nothing more to hear of it. Get it instead.")


def read(task_id: UUID, after: int) -> list[Item]:
    """The next of them: whoever is far behind reads on."""
    return [Item(*one) for one in _EVENTS.fetch_all(task=task_id, after=after, until=after + PAGE)]


def _is_last(item: Item, began: Began) -> bool:
    return item.state in ENDED or (began.ends_when_asked and item.state in ASKED)


def last_of(task_ids: list[UUID]) -> dict[UUID, int]:
    return dict(Task.objects.filter(pk__in=task_ids).values_list("pk", "last_seq"))


class Feed:
    """The events of one task, read once for all who follow it here."""

    def __init__(self, task_id: UUID) -> None:
        self._task_id = task_id
        self._items: deque[Item] = deque()
        self._bytes = 0
        #: Every event from behind `_base` to `seq` is in `_items`.
        self._base = self.seq = 0
        self._ready, self._grown = asyncio.Event(), asyncio.Event()
        self.followers = 0

    async def begin(self) -> None:
        """From how things stand on: whoever is behind that reads for itself."""
        with suppress(*AWAY):
            self._base = self.seq = await desk.do(partial(_LAST.fetch_first, task=self._task_id)) or 0
        self._ready.set()

    async def grow(self) -> None:
        is_cut = True
        while is_cut:
            found = await desk.do(partial(read, self._task_id, self.seq))
            is_cut = len(found) == PAGE or sum(item.size for item in found) >= PAGE_BYTES
            self._keep(found)
        self._grown.set()
        self._grown = asyncio.Event()

    def _keep(self, found: list[Item]) -> None:
        for item in found:
            self._items.append(item)
            self._bytes += item.size
            self.seq = item.seq or self.seq
            while len(self._items) > KEPT or (self._bytes > KEPT_BYTES and len(self._items) > 1):
                oldest = self._items.popleft()
                self._bytes -= oldest.size
                self._base = oldest.seq or self._base

    async def behind(self, cursor: int, *, patience: float) -> list[Item]:
        """What follows the cursor, as soon as there is something; nothing once patience has an end."""
        await self._ready.wait()
        if self._base <= cursor and cursor >= self.seq:
            with suppress(TimeoutError):
                async with asyncio.timeout(max(patience, 0)):
                    await self._grown.wait()
        if cursor >= self._base:
            return [item for item in self._items if (item.seq or 0) > cursor]
        with suppress(*AWAY):
            return await desk.do(partial(read, self._task_id, cursor))
        await asyncio.sleep(PAUSE)
        return []


@contextmanager
def _gone_on() -> Iterator[None]:
    """Whatever goes wrong in one look: who follows has nobody else who looks, and the next comes soon."""
    try:
        yield
    except Exception as error:
        log.warning("Events could not be looked for: %s.", type(error).__name__)


class Reader:
    """Keeps the feeds of one event loop fresh while anybody follows."""

    def __init__(self) -> None:
        self._feeds: dict[UUID, Feed] = {}
        self._tasks: dict[UUID, asyncio.Task[None]] = {}
        self._looking: asyncio.Task[None] | None = None
        self._wakers: dict[UUID, asyncio.Event] = {}

    @asynccontextmanager
    async def join(self, task_id: UUID) -> AsyncIterator[Feed]:
        feed = self._feeds.get(task_id)
        if feed is None:
            feed = self._feeds[task_id] = Feed(task_id)
            self._tasks[task_id] = asyncio.create_task(self._pump(feed, task_id))
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look())
        feed.followers += 1
        try:
            yield feed
        finally:
            feed.followers -= 1
            if not feed.followers:
                self._leave(task_id)

    def _leave(self, task_id: UUID) -> None:
        del self._feeds[task_id]
        self._tasks.pop(task_id).cancel()
        if not self._feeds and self._looking is not None:
            self._looking.cancel()
            self._looking = None

    async def _pump(self, feed: Feed, task_id: UUID) -> None:
        woken = asyncio.Event()
        with notifier.subscribe(task_id, woken.set):
            self._wakers[task_id] = woken
            try:
                await feed.begin()
                while True:
                    await woken.wait()
                    woken.clear()
                    with _gone_on():
                        await feed.grow()
            finally:
                self._wakers.pop(task_id, None)

    async def _look(self) -> None:
        """News may be lost: whatever has more events than its feed is read anew."""
        while True:
            await asyncio.sleep(POLL_INTERVAL_SECONDS)
            feeds = dict(self._feeds)
            with _gone_on():
                for task_id, seq in (await desk.do(partial(last_of, list(feeds)))).items():
                    if seq > feeds[task_id].seq and (woken := self._wakers.get(task_id)):
                        woken.set()


_readers: WeakKeyDictionary[asyncio.AbstractEventLoop, Reader] = WeakKeyDictionary()


def _feed(task_id: UUID) -> Any:
    return _readers.setdefault(asyncio.get_running_loop(), Reader()).join(task_id)
