"""Message authentication codes of log rows: covered columns by version, and the writing process."""

import os
import threading
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from itertools import count
from typing import Any
from uuid import UUID

from common import canonical_json, crypto
from common.ids import uuid7
from nhi.models import AuditEvent, InvocationLog

#: The columns that each version of a table's MAC covers. Old versions stay, so that old rows remain verifiable.
MAC_COLUMNS: dict[tuple[str, int], tuple[str, ...]] = {
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
#: Columns added after a version, which its MAC does not cover, with the only value that its rows may have there.
UNCOVERED_VALUES: dict[tuple[str, int], dict[str, Any]] = {("nhi_invocation_log", 1): {"calls": 1}}
LogRow = AuditEvent | InvocationLog


class MacVerdict(StrEnum):
    """The result of verifying a row's MAC. The values name badges and JSON fields."""

    INTACT = "intact"
    BROKEN = "broken"
    #: The row names a key that the installation no longer has, so the row cannot be verified.
    UNKNOWN_KEY = "unknown_key"


class WriterSequence:
    """The writer id of this process and the number of its next row. A forked process is a new writer."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.restart()

    def restart(self) -> None:
        self._id, self._numbers = uuid7(), count(1)

    @property
    def id(self) -> UUID:
        return self._id

    def next_number(self) -> tuple[UUID, int]:
        with self._lock:
            return self._id, next(self._numbers)


writer = WriterSequence()
os.register_at_fork(after_in_child=writer.restart)


def seal_row(row: LogRow) -> None:
    row.writer, row.writer_seq = writer.next_number()
    row.row_mac = crypto.compute_row_mac(mac_input(row))


def is_intact(row: LogRow) -> bool:
    """Whether the row is unchanged since it was written."""
    return verify_row(row) == MacVerdict.INTACT


def verify_row(row: LogRow) -> MacVerdict:
    columns = {field.attname: getattr(row, field.attname) for field in row._meta.concrete_fields}
    return verify_columns(row._meta.db_table, columns)


def verify_columns(table: str, columns: Mapping[str, Any]) -> MacVerdict:
    """Verify a row that was read as plain values by column."""
    version = table, columns["row_version"]
    mac, names = columns["row_mac"], MAC_COLUMNS.get(version)
    if not crypto.has_row_mac_key(mac):
        return MacVerdict.UNKNOWN_KEY
    try:
        # An unknown version was never written by this code.
        is_valid = names is not None and crypto.is_row_mac_valid(_encode_columns(columns, names), mac)
        is_valid = is_valid and all(columns[name] == value for name, value in UNCOVERED_VALUES.get(version, {}).items())
    except canonical_json.CanonicalizationError:
        is_valid = False
    return MacVerdict.INTACT if is_valid else MacVerdict.BROKEN


def mac_input(row: LogRow) -> bytes:
    names = MAC_COLUMNS[row._meta.db_table, row.row_version]
    return _encode_columns({name: getattr(row, name) for name in names}, names)


def _encode_columns(columns: Mapping[str, Any], names: Sequence[str]) -> bytes:
    return canonical_json.encode({name: _plain_value(columns[name]) for name in names})


def _plain_value(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="microseconds")
    return str(value) if isinstance(value, UUID) else value
