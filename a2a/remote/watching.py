"""Hearing that a task has ended here while its remote side is waited for: one look for all that this loop carries."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from uuid import UUID
from weakref import WeakKeyDictionary

from django.db import Error

from a2a.models import Task
from common.executors import run_in_thread

log = logging.getLogger(__name__)
LOOK_EVERY = 0.5


class Eyes:
    """Of one event loop, open while there is something to look at."""

    def __init__(self) -> None:
        self._ended: dict[UUID, asyncio.Event] = {}
        self._looking: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def on(self, task_id: UUID) -> AsyncIterator[asyncio.Event]:
        ended = self._ended[task_id] = asyncio.Event()
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look())
        try:
            yield ended
        finally:
            self._ended.pop(task_id, None)
            if not self._ended and self._looking is not None:
                self._looking.cancel()
                self._looking = None

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(LOOK_EVERY)
            wanted = [pk for pk, ended in self._ended.items() if not ended.is_set()]
            for pk in await run_in_thread(lambda: _over(wanted)):  # noqa: B023 - done before the next turn
                if pk in self._ended:
                    self._ended[pk].set()


def _over(wanted: list[UUID]) -> list[UUID]:
    try:
        still = set(Task.objects.open().filter(pk__in=wanted).values_list("pk", flat=True))
    except Error as error:
        log.warning("Whether tasks have ended could not be looked up (%s).", type(error).__name__)
        return []
    return [pk for pk in wanted if pk not in still]


_eyes: WeakKeyDictionary[asyncio.AbstractEventLoop, Eyes] = WeakKeyDictionary()


def eyes() -> Eyes:
    return _eyes.setdefault(asyncio.get_running_loop(), Eyes())
