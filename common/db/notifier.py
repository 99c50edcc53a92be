"""Notifies the event loops of this process about rows that any process committed.

PostgreSQL sends notifications. A SQLite file has none, so its version is polled: a few bytes of shared memory are read.
A notification is only a hint: whoever gets one reads the rows, and subscribers must also poll, every
POLL_INTERVAL_SECONDS.
"""

import asyncio
import logging
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import connection

from common.executors import use_unpooled_connection
from common.fastsql import prepared_statements

log = logging.getLogger(__name__)
POLL_INTERVAL_SECONDS = 0.5
FILE_POLL_SECONDS = 0.01
RETRY_SECONDS = 1.0


@dataclass(frozen=True)
class ChangeQueries:
    """Queries that find the new rows in a SQLite file, by a row number that only grows, and the keys to notify."""

    #: Selects the number of the last row.
    last_row_sql: str
    #: Selects, for each row after a number, the row's number and the keys to notify.
    rows_after_sql: str


class Notifier:
    """Calls the callbacks of those who subscribed to a key. A thread listens as long as there are subscribers."""

    def __init__(self, channel: str, changes: ChangeQueries, *, thread_name: str) -> None:
        self._channel, self._changes, self._thread_name = channel, changes, thread_name
        self._lock = threading.Lock()
        self._callbacks: dict[UUID, dict[Callable[[], Any], asyncio.AbstractEventLoop]] = defaultdict(dict)
        self._listener: threading.Thread | None = None
        self._last_thread: threading.Thread | None = None

    def notify(self, key: UUID) -> None:
        """Notify the subscribers of this key in all processes, once the current transaction is committed.

        On SQLite nothing is sent: every process sees that the file has changed.
        """
        if connection.vendor == "postgresql":
            prepared_statements.execute_statements(("SELECT pg_notify(%s, %s)", [self._channel, str(key)]))

    @contextmanager
    def subscribe(self, key: UUID, callback: Callable[[], Any]) -> Iterator[None]:
        """Have `callback` called in this event loop at notifications of this key inside the block."""
        try:
            with self._lock:
                self._callbacks[key][callback] = asyncio.get_running_loop()
                if self._listener is None:
                    self._start()
            yield
        finally:
            with self._lock:
                self._callbacks[key].pop(callback)
                if not self._callbacks[key]:
                    del self._callbacks[key]

    def wake(self, key: UUID) -> None:
        """Call the callbacks of this key in this process."""
        with self._lock:
            callbacks = list(self._callbacks.get(key, {}).items())
        for callback, loop in callbacks:
            # A loop that has just ended has no subscriber.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(callback)

    def wake_all(self) -> None:
        with self._lock:
            keys = list(self._callbacks)
        for key in keys:
            self.wake(key)

    def close(self) -> None:
        """Wait until the thread has ended, which is soon after the last subscriber has left."""
        if self._last_thread is not None:
            self._last_thread.join(10 * POLL_INTERVAL_SECONDS)

    def _start(self) -> None:
        thread = threading.Thread(target=self._run, name=self._thread_name, daemon=True)
        # The thread first takes the lock that is held here, so it finds itself as the listener.
        thread.start()
        self._listener = self._last_thread = thread

    def _run(self) -> None:
        """Listen with a connection of the thread's own, as long as there are subscribers."""
        while self._has_subscribers():
            try:
                self._listen()
            except Exception as error:
                log.warning("%s: notifications cannot be read: %s.", self._channel, type(error).__name__)
                threading.Event().wait(RETRY_SECONDS)

    def _has_subscribers(self) -> bool:
        """False ends the thread that asks: nobody is subscribed, or another thread listens."""
        with self._lock:
            if not self._callbacks and self._listener is threading.current_thread():
                self._listener = None
            return self._listener is threading.current_thread()

    def _listen(self) -> None:
        use_unpooled_connection()
        try:
            if connection.vendor == "postgresql":
                self._listen_to_server()
            else:
                self._watch_file()
        finally:
            connection.close()

    def _listen_to_server(self) -> None:
        with connection.cursor() as cursor:
            cursor.execute(f"LISTEN {self._channel}")
        dbapi_connection = connection.connection
        # Notifications before this were not received.
        self.wake_all()
        while self._has_subscribers():
            for notification in dbapi_connection.notifies(timeout=POLL_INTERVAL_SECONDS, stop_after=1):
                self.wake(UUID(notification.payload))

    def _watch_file(self) -> None:
        pause = threading.Event()
        with connection.cursor() as cursor:
            last_row, version = _fetch_number(cursor, self._changes.last_row_sql), None
            self.wake_all()
            while self._has_subscribers():
                known_version, version = version, _fetch_number(cursor, "PRAGMA data_version")
                if version != known_version:
                    last_row = self._wake_since(cursor, last_row)
                pause.wait(FILE_POLL_SECONDS)

    def _wake_since(self, cursor: Any, last_row: int) -> int:
        """Notify about the rows after this one and return the number of the last."""
        cursor.execute(self._changes.rows_after_sql, [last_row])
        rows = cursor.fetchall()
        for key in {UUID(key) for _, *keys in rows for key in keys}:
            self.wake(key)
        return int(rows[-1][0]) if rows else last_row


def _fetch_number(cursor: Any, sql: str) -> int:
    cursor.execute(sql)
    return int(cursor.fetchone()[0])
