"""Blocking work of the loop: in one thread with one connection, so that it is done in the order it was asked for."""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import TypeVar

from django.db import InterfaceError, OperationalError, connection

log = logging.getLogger(__name__)
T = TypeVar("T")
#: What passes, unlike a row that the database will not take.
AWAY = (OperationalError, InterfaceError)
PAUSE = 1.0


class Desk:
    def __init__(self, name: str) -> None:
        self._name = name
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=name)

    async def do(self, work: Callable[[], T]) -> T:
        context = copy_context()
        return await asyncio.get_running_loop().run_in_executor(self._thread, partial(context.run, _sound, work))

    async def insist(self, work: Callable[[], T], *, before_again: Callable[[], object]) -> T:
        """The same until the database takes it. Nobody knows whether a try that failed was committed."""
        while True:
            try:
                return await self.do(work)
            except AWAY as error:
                log.warning("%s could not write and tries again: %s.", self._name, type(error).__name__)
                await asyncio.sleep(PAUSE)
                work = _after(before_again, work)

    def close(self) -> None:
        self._thread.submit(_leave)
        self._thread.shutdown(wait=True)


def _sound(work: Callable[[], T]) -> T:
    try:
        return work()
    except Exception:
        # Whatever happened in the middle of, the next one begins with a connection that works.
        connection.close()
        raise


def _leave() -> None:
    """Named here and looked up there: each thread has a connection of its own."""
    connection.close()


def _after(first: Callable[[], object], work: Callable[[], T]) -> Callable[[], T]:
    def both() -> T:
        first()
        return work()

    return both
