"""Threads and poll loops that run while there is work."""

import asyncio
import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Generic, TypeVar

from django.db import InterfaceError, OperationalError

from common import egress
from common.executors import run_in_thread

log = logging.getLogger(__name__)
Item = TypeVar("Item")


def run_isolated(work: Callable[[Item], int | None], item: Item) -> int:
    """Return the count from `work(item)`, or 0 and a log entry if it fails. Database connection errors are raised."""
    try:
        return work(item) or 0
    except (OperationalError, InterfaceError):
        raise
    except Exception:
        log.exception("What the clock found could not be done.", extra={"what": str(item)})
        return 0


#: Threads for database work; each has its own connection.
DB_THREADS = 2
T = TypeVar("T")
Subject = TypeVar("Subject")


class BackgroundThread:
    """Runs `work` in a background thread after `wake`. A wake during a run causes one more run."""

    def __init__(self, name: str, work: Callable[[], None], *, error_message: str) -> None:
        self._name, self._work, self._error_message = name, work, error_message
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._again = False

    def wake(self) -> None:
        with self._lock:
            self._again = True
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()

    def _run(self) -> None:
        while self._take_request():
            try:
                self._work()
            except Exception:
                # The next scheduled wake-up tries again.
                log.exception(self._error_message)

    def _take_request(self) -> bool:
        with self._lock:
            again, self._again = self._again, False
            if not again:
                self._thread = None
            return again


class DueWorkRound(ABC, Generic[Subject]):
    """One round of due work: starts it as asyncio tasks, polls for more, and ends when no task is running."""

    def __init__(self, name: str, *, poll_interval: float) -> None:
        self._poll_interval = poll_interval
        self._db_threads = ThreadPoolExecutor(DB_THREADS, name)
        #: Running tasks and their subjects.
        self._running_tasks: dict[asyncio.Task[None], Subject] = {}

    @abstractmethod
    async def _start_due_work(self) -> None:
        """Start due work, up to the limit of running tasks."""

    async def _check_running_work(self) -> None:
        """Check the running work; called after each poll."""

    async def run(self) -> None:
        try:
            await self._start_due_work()
            while self._running_tasks:
                await asyncio.wait(
                    self._running_tasks, timeout=self._poll_interval, return_when=asyncio.FIRST_COMPLETED
                )  # fmt: skip
                self._running_tasks = {
                    task: subject for task, subject in self._running_tasks.items() if not task.done()
                }
                await self._check_running_work()
                await self._start_due_work()
        finally:
            await self._cancel_all()

    def _start(self, work: Coroutine[Any, Any, None], subject: Subject) -> None:
        self._running_tasks[asyncio.create_task(work)] = subject

    async def _run_in_db_thread(self, work: Callable[[], T]) -> T:
        """Run database work in one of this loop's database threads."""
        return await run_in_thread(work, self._db_threads)

    async def _cancel_all(self) -> None:
        for task in self._running_tasks:
            task.cancel()
        await asyncio.gather(*self._running_tasks, return_exceptions=True)
        await egress.close_session()
        self._db_threads.shutdown(wait=False)
