"""A record row's MAC: what it covers, by version, and who wrote it."""

import os
import threading
from datetime import UTC, datetime
from itertools import count
from typing import Any
from uuid import UUID

from common import canonical, crypto
from common.ids import uuid7
from nhi.models import AuditEvent

#: The columns that each version of a row's MAC covers, in one place, so that old rows stay verifiable.
COVERED: dict[int, tuple[str, ...]] = {
    1: (
        "id", "at", "event", "actor_kind", "actor_id", "actor_name", "subject_kind", "subject_id", "subject_name",
        "holder_id", "target_id", "before", "after", "details", "reason", "request_id", "source", "writer",
        "writer_seq", "row_version",
    )
}  # fmt: skip


class Writer:
    """This process as a writer: its id, and the number of its next row. A fork is another writer."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.restart()

    def restart(self) -> None:
        self._id, self._numbers = uuid7(), count(1)

    def next(self) -> tuple[UUID, int]:
        with self._lock:
            return self._id, next(self._numbers)


writer = Writer()
os.register_at_fork(after_in_child=writer.restart)


def seal(row: AuditEvent) -> None:
    row.writer, row.writer_seq = writer.next()
    row.row_mac = crypto.row_mac(covered(row))


def intact(row: AuditEvent) -> bool:
    """Whether the row still says what was written."""
    return row.row_version in COVERED and crypto.row_mac_fits(covered(row), row.row_mac)


def covered(row: AuditEvent) -> bytes:
    return canonical.encode({name: _plain(getattr(row, name)) for name in COVERED[row.row_version]})


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="microseconds")
    return str(value) if isinstance(value, UUID) else value
