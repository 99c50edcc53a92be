"""A thread of a worker that is there while there is something to do, and the many things that it is about at once.

A worker's turn is short and others need it: whoever waits for other machines waits on an event loop of this thread.
"""

import asyncio
import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Generic, TypeVar

from common import egress
from common.threads import in_thread

log = logging.getLogger(__name__)
#: Each with a connection to the database.
CLERKS = 2
T = TypeVar("T")
About = TypeVar("About")


class Office:
    """At most one thread of this process, for as long as there is something to do."""

    def __init__(self, name: str, work: Callable[[], None], *, failed: str) -> None:
        self._name, self._work, self._failed = name, work, failed
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._again = False

    def poke(self) -> None:
        with self._lock:
            self._again = True
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()

    def _run(self) -> None:
        while self._has_more():
            try:
                self._work()
            except Exception:
                # The next tick tries again.
                log.exception(self._failed)

    def _has_more(self) -> bool:
        with self._lock:
            again, self._again = self._again, False
            if not again:
                self._thread = None
            return again


class Round(ABC, Generic[About]):
    """Taking up what is due until nothing is under way any more. `look_every`: seconds, meanwhile."""

    def __init__(self, name: str, *, look_every: float) -> None:
        self._look_every = look_every
        self._clerks = ThreadPoolExecutor(CLERKS, name)
        #: What is under way, and what it is about.
        self._under_way: dict[asyncio.Task[None], About] = {}

    @abstractmethod
    async def _take(self) -> None:
        """Begin what is due, as far as there is room."""

    async def _look(self) -> None:
        """After what is under way."""

    async def run(self) -> None:
        try:
            await self._take()
            while self._under_way:
                await asyncio.wait(
                    self._under_way, timeout=self._look_every, return_when=asyncio.FIRST_COMPLETED
                )  # fmt: skip
                self._under_way = {job: about for job, about in self._under_way.items() if not job.done()}
                await self._look()
                await self._take()
        finally:
            await self._end()

    def _begin(self, work: Coroutine[Any, Any, None], about: About) -> None:
        self._under_way[asyncio.create_task(work)] = about

    async def _ask(self, verb: Callable[[], T]) -> T:
        """The database, by a clerk."""
        return await in_thread(verb, self._clerks)

    async def _end(self) -> None:
        for job in self._under_way:
            job.cancel()
        await asyncio.gather(*self._under_way, return_exceptions=True)
        await egress.close()
        self._clerks.shutdown(wait=False)
