"""How one process hears at once what another has written: PostgreSQL says so, and a file is seen to have changed."""

from collections.abc import Callable
from threading import Event
from typing import Any
from uuid import UUID

from django.db import connection

from a2a.models import Task, TaskEvent
from common.executors import use_unpooled_connection

CHANNEL = "a2a_news"
#: Seconds between looks at a file's version, which reads a few bytes of memory that its processes share.
LOOK_AT_FILE = 0.01
#: Of each event past a row: that row, its task, and whose inbox that is or was in. Rows are numbered as they come.
_SINCE = (
    f"SELECT event.rowid, task.id, task.agent_id FROM {TaskEvent._meta.db_table} event"  # noqa: S608 - names of models
    f" JOIN {Task._meta.db_table} task ON task.id = event.task_id WHERE event.rowid > %s ORDER BY event.rowid"
)
_LAST = f"SELECT coalesce(max(rowid), 0) FROM {TaskEvent._meta.db_table}"  # noqa: S608 - as above


def hear(
    wanted: Callable[[], bool], *, wake: Callable[[UUID], None], wake_all: Callable[[], None], look_every: float
) -> None:
    """For as long as it is wanted, with a connection of its own."""
    use_unpooled_connection()
    try:
        if connection.vendor == "postgresql":
            _hear_server(wanted, wake, wake_all, look_every)
        else:
            _watch_file(wanted, wake, wake_all)
    finally:
        connection.close()


def _hear_server(wanted: Callable[[], bool], wake: Callable[[UUID], None], wake_all: Any, look_every: float) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"LISTEN {CHANNEL}")
    raw = connection.connection
    # What was said before we listened is found by looking.
    wake_all()
    while wanted():
        for said in raw.notifies(timeout=look_every, stop_after=1):
            wake(UUID(said.payload))


def _watch_file(wanted: Callable[[], bool], wake: Callable[[UUID], None], wake_all: Any) -> None:
    pause = Event()
    with connection.cursor() as cursor:
        last, version = _one(cursor, _LAST), None
        wake_all()
        while wanted():
            before, version = version, _one(cursor, "PRAGMA data_version")
            if version != before:
                last = _tell(cursor, last, wake)
            pause.wait(LOOK_AT_FILE)


def _tell(cursor: Any, last: int, wake: Callable[[UUID], None]) -> int:
    """Wake who waits for what is new past a row; the last of it."""
    cursor.execute(_SINCE, [last])
    rows = cursor.fetchall()
    for what in {UUID(one) for _, task, agent in rows for one in (task, agent)}:
        wake(what)
    return int(rows[-1][0]) if rows else last


def _one(cursor: Any, sql: str) -> int:
    cursor.execute(sql)
    return int(cursor.fetchone()[0])
