"""Between event loops and blocking code, in both directions."""

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from contextvars import copy_context
from functools import partial
from typing import Any, TypeVar

from django.db import connection

T = TypeVar("T")


async def run_in_thread(work: Callable[[], T], by: Executor | None = None) -> T:
    """Blocking work of a loop: in a thread, whose database connection is given back afterwards."""
    context = copy_context()
    return await asyncio.get_running_loop().run_in_executor(by, partial(context.run, _run_and_close_connection, work))


def _run_and_close_connection(work: Callable[[], T]) -> T:
    try:
        return work()
    finally:
        connection.close()


class BackgroundEventLoop:
    """One event loop of this process for blocking callers, so that what it has open to servers is used again."""

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """A fork inherits no thread."""
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    def run(self, work: Coroutine[Any, Any, T], *, timeout: float) -> T:
        """What the coroutine returns, or TimeoutError once it has been cancelled."""
        future = asyncio.run_coroutine_threadsafe(_run_with_timeout(work, timeout), self._get_running_loop())
        return future.result(timeout + 5)

    def stop(self, last: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Let go of what the loop has open, and end it."""
        with self._lock:
            loop, self._loop = self._loop, None
        if loop is not None:
            asyncio.run_coroutine_threadsafe(last(), loop).result(10)
            loop.call_soon_threadsafe(loop.stop)

    def _get_running_loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._run_forever, args=(self._loop,), name="upstreams", daemon=True).start()
            return self._loop

    def _run_forever(self, loop: asyncio.AbstractEventLoop) -> None:
        loop.run_forever()
        loop.close()


async def _run_with_timeout(work: Coroutine[Any, Any, T], seconds: float) -> T:
    async with asyncio.timeout(seconds):
        return await work


background_loop = BackgroundEventLoop()
os.register_at_fork(after_in_child=background_loop.restart)
