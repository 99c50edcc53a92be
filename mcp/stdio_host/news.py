"""Debounces notifications of changed tool lists before a refresh is queued."""

import asyncio
import logging
import math
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from uuid import UUID

log = logging.getLogger(__name__)
#: Changes within the first delay count as one. The delay doubles with repeated changes, so that a server which
#: announces a change at each listing is listed no more often than the schedule does.
FIRST_DEBOUNCE_SECONDS, MAX_DEBOUNCE_SECONDS = 2.0, 60.0
#: Without a change for this long after a refresh, the delay starts again at its first value.
CALM_SECONDS = 15.0


class ChangeDebouncer:
    """Combines change notifications of servers. The refresh function may block, so it runs in a thread of its own."""

    def __init__(self, refresh: Callable[[UUID], None]) -> None:
        self._refresh = refresh
        self._thread = ThreadPoolExecutor(1, "news")
        self._waiting: dict[UUID, asyncio.Task[None]] = {}
        #: The time of each server's last refresh, and the delay before it.
        self._forwarded: dict[UUID, tuple[float, float]] = {}

    def notify(self, server_id: UUID) -> None:
        if server_id not in self._waiting:
            self._waiting[server_id] = asyncio.create_task(self._forward(server_id))

    async def close(self) -> None:
        """Discard waiting notifications. The scheduled refresh finds these changes."""
        for task in self._waiting.values():
            task.cancel()
        await asyncio.gather(*self._waiting.values(), return_exceptions=True)
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _forward(self, server_id: UUID) -> None:
        wait = self._find_wait(server_id)
        try:
            await asyncio.sleep(wait)
        finally:
            # A later change needs a refresh of its own.
            del self._waiting[server_id]
        self._forwarded[server_id] = (time.monotonic(), wait)
        try:
            await asyncio.get_running_loop().run_in_executor(self._thread, self._refresh, server_id)
        except Exception as error:
            log.warning("No refresh of %s was asked for (%s).", server_id, type(error).__name__)

    def _find_wait(self, server_id: UUID) -> float:
        at, last_wait = self._forwarded.get(server_id, (-math.inf, 0.0))
        if time.monotonic() - at > CALM_SECONDS:
            return FIRST_DEBOUNCE_SECONDS
        return min(last_wait * 2, MAX_DEBOUNCE_SECONDS)
