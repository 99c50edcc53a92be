"""Word that a server's tools may be others than before: gathered for a moment, then passed on once."""

import asyncio
import logging
import math
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from uuid import UUID

log = logging.getLogger(__name__)
#: Several changes within the first of these are one; whoever changes again and again is waited for ever longer, so
#: that a server which says so at each listing is asked no more often than by the clock.
FIRST_DEBOUNCE_SECONDS, MAX_DEBOUNCE_SECONDS = 2.0, 60.0
#: Nothing said for so long after it was passed on: the next change is a new one.
CALM_SECONDS = 15.0


class ChangeDebouncer:
    """`tell` asks for a refresh of a server and may block: a thread of its own calls it."""

    def __init__(self, tell: Callable[[UUID], None]) -> None:
        self._refresh = tell
        self._thread = ThreadPoolExecutor(1, "news")
        self._waiting: dict[UUID, asyncio.Task[None]] = {}
        #: When each was passed on, and how long that had waited.
        self._forwarded: dict[UUID, tuple[float, float]] = {}

    def notify(self, server_id: UUID) -> None:
        if server_id not in self._waiting:
            self._waiting[server_id] = asyncio.create_task(self._forward(server_id))

    async def close(self) -> None:
        """What was not passed on yet is found by the clock."""
        for task in self._waiting.values():
            task.cancel()
        await asyncio.gather(*self._waiting.values(), return_exceptions=True)
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _forward(self, server_id: UUID) -> None:
        wait = self._find_wait(server_id)
        try:
            await asyncio.sleep(wait)
        finally:
            # What changes from here on is news again.
            del self._waiting[server_id]
        self._forwarded[server_id] = (time.monotonic(), wait)
        try:
            await asyncio.get_running_loop().run_in_executor(self._thread, self._refresh, server_id)
        except Exception as error:
            log.warning("No refresh of %s was asked for (%s).", server_id, type(error).__name__)

    def _find_wait(self, server_id: UUID) -> float:
        at, waited = self._forwarded.get(server_id, (-math.inf, 0.0))
        if time.monotonic() - at > CALM_SECONDS:
            return FIRST_DEBOUNCE_SECONDS
        return min(waited * 2, MAX_DEBOUNCE_SECONDS)
