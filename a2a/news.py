"""Word of news, for those who wait for it in this process and in others: of a task that it has a new event, of an
agent that a task waits in its inbox.

A hint: over PostgreSQL it comes at once by LISTEN and NOTIFY, elsewhere by looking several times a second. Whoever
hears it reads the table, and whoever hears nothing looks all the same: word that is lost costs time and no event.
"""

import asyncio
import logging
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import UUID

from django.db import connection, transaction

from common.connections import leave_the_pool

log = logging.getLogger(__name__)
CHANNEL = "a2a_news"
#: Seconds between looks without a bus, and beside one.
LOOK_EVERY, LOOK_BESIDE = 0.2, 0.5
RETRY_AFTER = 1.0


class Board:
    """Who waits for news of which task, in this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[UUID, dict[asyncio.Event, asyncio.AbstractEventLoop]] = defaultdict(dict)
        self._listener: threading.Thread | None = None
        self._last: threading.Thread | None = None

    @contextmanager
    def watch(self, what: UUID) -> Iterator[asyncio.Event]:
        """An event that is set at news of a task or of an inbox; of news before this is entered nothing is told."""
        woken = asyncio.Event()
        with self._lock:
            self._waiting[what][woken] = asyncio.get_running_loop()
            if self._listener is None and has_bus():
                self._listener = self._last = threading.Thread(target=self._listen, name="task-news", daemon=True)
                self._listener.start()
        try:
            yield woken
        finally:
            with self._lock:
                self._waiting[what].pop(woken)
                if not self._waiting[what]:
                    del self._waiting[what]

    def wake(self, what: UUID) -> None:
        with self._lock:
            found = list(self._waiting.get(what, {}).items())
        for woken, loop in found:
            loop.call_soon_threadsafe(woken.set)

    def wake_all(self) -> None:
        with self._lock:
            every = list(self._waiting)
        for what in every:
            self.wake(what)

    def close(self) -> None:
        """Return once nothing listens any more, which is soon after the last has stopped waiting."""
        if self._last is not None:
            self._last.join(10 * LOOK_BESIDE)

    @property
    def patience(self) -> float:
        """How long to wait for news before looking without any."""
        return LOOK_BESIDE if self._listener is not None else LOOK_EVERY

    def _listen(self) -> None:
        """With a connection of its own, for as long as somebody waits."""
        while self._is_wanted():
            try:
                self._hear()
            except Exception as error:
                log.warning("News of tasks cannot be heard: %s.", type(error).__name__)
                threading.Event().wait(RETRY_AFTER)

    def _hear(self) -> None:
        leave_the_pool()
        try:
            with connection.cursor() as cursor:
                cursor.execute(f"LISTEN {CHANNEL}")
            raw = connection.connection
            # What was said before we listened is found by looking.
            self.wake_all()
            while self._is_wanted():
                for said in raw.notifies(timeout=LOOK_BESIDE, stop_after=1):
                    self.wake(UUID(said.payload))
        finally:
            connection.close()

    def _is_wanted(self) -> bool:
        """False ends the thread that asks: nobody waits, or another listens."""
        with self._lock:
            if not self._waiting and self._listener is threading.current_thread():
                self._listener = None
            return self._listener is threading.current_thread()


def has_bus() -> bool:
    return connection.vendor == "postgresql"


def tell(what: UUID) -> None:
    """Once what was written is committed."""
    if has_bus():
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_notify(%s, %s)", [CHANNEL, str(what)])
    else:
        transaction.on_commit(lambda: board.wake(what))


board = Board()
