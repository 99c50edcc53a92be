"""Word of news, for those who wait for it in this process and in others: of a task that it has a new event, of an
agent that a task waits in its inbox.

A hint: whoever hears it reads the table, and whoever hears nothing looks all the same. Word that is lost costs time and
no event.
"""

import asyncio
import logging
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any
from uuid import UUID

from django.db import connection

from a2a import hearing
from common.fastsql import statements

log = logging.getLogger(__name__)
#: Seconds between looks without news.
LOOK_BESIDE = 0.5
RETRY_AFTER = 1.0


class Board:
    """Who waits for news of which task, in this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[UUID, dict[Callable[[], Any], asyncio.AbstractEventLoop]] = defaultdict(dict)
        self._listener: threading.Thread | None = None
        self._last: threading.Thread | None = None

    @contextmanager
    def hear(self, what: UUID, call: Callable[[], Any]) -> Iterator[None]:
        """Have `call` called in this loop at news of a task or of an inbox; not of news before this is entered."""
        try:
            with self._lock:
                self._waiting[what][call] = asyncio.get_running_loop()
                if self._listener is None:
                    self._start()
            yield
        finally:
            with self._lock:
                self._waiting[what].pop(call)
                if not self._waiting[what]:
                    del self._waiting[what]

    def _start(self) -> None:
        thread = threading.Thread(target=self._listen, name="task-news", daemon=True)
        # It asks under our lock whether it is wanted, so by then it is known.
        thread.start()
        self._listener = self._last = thread

    def wake(self, what: UUID) -> None:
        with self._lock:
            found = list(self._waiting.get(what, {}).items())
        for call, loop in found:
            # A loop that has just ended has nobody waiting in it.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(call)

    def wake_all(self) -> None:
        with self._lock:
            every = list(self._waiting)
        for what in every:
            self.wake(what)

    def close(self) -> None:
        """Return once nothing listens any more, which is soon after the last has stopped waiting."""
        if self._last is not None:
            self._last.join(10 * LOOK_BESIDE)

    def _listen(self) -> None:
        """With a connection of its own, for as long as somebody waits."""
        while self._is_wanted():
            try:
                hearing.hear(self._is_wanted, wake=self.wake, wake_all=self.wake_all, look_every=LOOK_BESIDE)
            except Exception as error:
                log.warning("News of tasks cannot be heard: %s.", type(error).__name__)
                threading.Event().wait(RETRY_AFTER)

    def _is_wanted(self) -> bool:
        """False ends the thread that asks: nobody waits, or another listens."""
        with self._lock:
            if not self._waiting and self._listener is threading.current_thread():
                self._listener = None
            return self._listener is threading.current_thread()


def tell(what: UUID) -> None:
    """Once what was written is committed. A file is looked at by those who want to know."""
    if connection.vendor == "postgresql":
        statements.execute_statements(("SELECT pg_notify(%s, %s)", [hearing.CHANNEL, str(what)]))


board = Board()
