"""A record row's MAC: what it covers, by version, and who wrote it."""

import os
import threading
from datetime import UTC, datetime
from itertools import count
from typing import Any
from uuid import UUID

from common import canonical, crypto
from common.ids import uuid7
from nhi.models import AuditEvent, InvocationLog

#: The columns that each version of a table's MAC covers, in one place, so that old rows stay verifiable.
COVERED: dict[tuple[str, int], tuple[str, ...]] = {
    ("nhi_audit_event", 1): (
        "id", "at", "event", "actor_kind", "actor_id", "actor_name", "subject_kind", "subject_id", "subject_name",
        "holder_id", "target_id", "before", "after", "details", "reason", "request_id", "source", "writer",
        "writer_seq", "row_version",
    ),
    ("nhi_invocation_log", 1): (
        "id", "timestamp", "run_id", "agent_id", "agent_name", "agent_role", "tool_id", "tool_name", "method",
        "args_hash", "redaction_applied", "duration", "status", "error_code", "error_message", "reason", "request_id",
        "thread_id", "session_id", "task_id", "decision_id", "grant_id", "role_id", "chain", "source", "details",
        "writer", "writer_seq", "row_version",
    ),
    ("nhi_invocation_log", 2): (
        "id", "timestamp", "run_id", "agent_id", "agent_name", "agent_role", "tool_id", "tool_name", "method",
        "args_hash", "redaction_applied", "duration", "status", "error_code", "error_message", "reason", "request_id",
        "thread_id", "session_id", "task_id", "decision_id", "grant_id", "role_id", "chain", "source", "details",
        "calls", "writer", "writer_seq", "row_version",
    ),
}  # fmt: skip
Row = AuditEvent | InvocationLog


class Writer:
    """This process as a writer: its id, and the number of its next row. A fork is another writer."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.restart()

    def restart(self) -> None:
        self._id, self._numbers = uuid7(), count(1)

    @property
    def id(self) -> UUID:
        return self._id

    def next(self) -> tuple[UUID, int]:
        with self._lock:
            return self._id, next(self._numbers)


writer = Writer()
os.register_at_fork(after_in_child=writer.restart)


def seal(row: Row) -> None:
    row.writer, row.writer_seq = writer.next()
    row.row_mac = crypto.row_mac(covered(row))


def intact(row: Row) -> bool:
    """Whether the row still says what was written."""
    if isinstance(row, InvocationLog) and row.row_version == 1 and row.calls != 1:
        # Its code is older than this column, and each of those rows was one call.
        return False
    return _key(row) in COVERED and crypto.row_mac_fits(covered(row), row.row_mac)


def covered(row: Row) -> bytes:
    return canonical.encode({name: _plain(getattr(row, name)) for name in COVERED[_key(row)]})


def _key(row: Row) -> tuple[str, int]:
    return row._meta.db_table, row.row_version


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="microseconds")
    return str(value) if isinstance(value, UUID) else value
