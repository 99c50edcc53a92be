"""The threads in which operations ask the database, each with a connection that it keeps."""

import asyncio
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from typing import TypeVar

from django.db import InterfaceError, OperationalError, connection

from common.executors import use_unpooled_connection

T = TypeVar("T")
#: Who waits for a lock must not hold up those who only read.
THREADS = 6
#: What a database that is away says; and seconds before it is asked again.
AWAY, PAUSE = (OperationalError, InterfaceError), 0.5
#: Seconds for work that is under way when the process ends.
PATIENCE = 3.0


class Threads:
    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """A fork inherits no thread."""
        self._threads = _threads()

    async def do(self, work: Callable[[], T]) -> T:
        context = copy_context()
        return await asyncio.get_running_loop().run_in_executor(self._threads, partial(context.run, _sound, work))

    def close(self) -> None:
        """End the threads, and with each its connection."""
        ended, self._threads = self._threads, _threads()
        # Each waits for the others, so that none of them leaves twice and another never.
        together = threading.Barrier(THREADS)
        for _ in range(THREADS):
            ended.submit(_leave, together)
        ended.shutdown(wait=True)


def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(THREADS, thread_name_prefix="operations", initializer=use_unpooled_connection)


def _sound(work: Callable[[], T]) -> T:
    try:
        return work()
    except Exception:
        # What the database did not like may have left the connection in the middle of something; a refusal has not.
        if connection.errors_occurred or connection.in_atomic_block:
            connection.close()
        raise


def _leave(together: threading.Barrier) -> None:
    """Named here and looked up there: each thread has a connection of its own."""
    connection.close()
    with suppress(threading.BrokenBarrierError):
        together.wait(PATIENCE)


desk = Threads()
os.register_at_fork(after_in_child=desk.restart)
