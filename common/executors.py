"""Runs blocking database work from event loops, and coroutines from blocking code."""

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from contextvars import copy_context
from functools import partial
from typing import Any, TypeVar

from django.db import DEFAULT_DB_ALIAS, connection, connections
from django.db.utils import load_backend


def use_unpooled_connection() -> None:
    """Give this thread a connection outside the pool. A long-lived thread then takes no connection away from requests,
    and settings made on its connection never reach another thread."""
    if "pool" not in connection.settings_dict["OPTIONS"]:
        return
    connection.close()
    unpooled_settings = {**connection.settings_dict}
    unpooled_settings["OPTIONS"] = {
        name: value for name, value in unpooled_settings["OPTIONS"].items() if name != "pool"
    }
    connections[DEFAULT_DB_ALIAS] = load_backend(unpooled_settings["ENGINE"]).DatabaseWrapper(
        unpooled_settings, DEFAULT_DB_ALIAS
    )


T = TypeVar("T")


async def run_in_thread(work: Callable[[], T], executor: Executor | None = None) -> T:
    """Run blocking work in a thread and close the thread's database connection afterwards."""
    context = copy_context()
    return await asyncio.get_running_loop().run_in_executor(
        executor, partial(context.run, _run_and_close_connection, work)
    )


def _run_and_close_connection(work: Callable[[], T]) -> T:
    try:
        return work()
    finally:
        connection.close()


class BackgroundEventLoop:
    """An event loop in a thread, for blocking callers. One per process, so that connections to servers are reused."""

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Forget the loop: a forked child process does not inherit its thread."""
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    def run(self, work: Coroutine[Any, Any, T], *, timeout: float) -> T:
        """Return the coroutine's result; cancel the coroutine and raise TimeoutError after `timeout` seconds."""
        future = asyncio.run_coroutine_threadsafe(_run_with_timeout(work, timeout), self._get_running_loop())
        return future.result(timeout + 5)

    def stop(self, cleanup: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run `cleanup()` on the loop, then stop the loop."""
        with self._lock:
            loop, self._loop = self._loop, None
        if loop is not None:
            asyncio.run_coroutine_threadsafe(cleanup(), loop).result(10)
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
