"""The only builder of invocation log rows: plain values by column, sealed with a MAC.

Rows are dicts: a row is created with the decision and finished with the call, often in the same millisecond, and a
model instance would cost more than the database.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from common import canonical_json, crypto
from nhi.audit import row_macs, sanitization
from nhi.decisions.delegation import ChainLink
from nhi.models import InvocationLog

COLUMNS = tuple(field.attname for field in InvocationLog._meta.concrete_fields)
MAX_MESSAGE_LENGTH = 500
InvocationRow = dict[str, Any]


def begin(
    *,
    call_id: UUID,
    at: datetime,
    agent: tuple[UUID, str],
    tool_id: UUID | None,
    tool_name: str,
    method: str,
    args_hash: str,
    request_id: UUID,
    source: str,
    thread_id: str = "",
    session_id: str = "",
    task_id: str = "",
    run_id: UUID | None = None,
    callers: Sequence[ChainLink] = (),
    decision_id: UUID | None = None,
    details: dict[str, Any] | None = None,
) -> InvocationRow:
    """Return the row of a call without its outcome."""
    agent_id, agent_name = agent
    return {
        "id": call_id,
        "timestamp": at,
        "run_id": run_id or call_id,
        "agent_id": agent_id,
        "agent_name": agent_name,
        "agent_role": "",
        "tool_id": tool_id,
        "tool_name": sanitization.single_line(tool_name, 192),
        "method": sanitization.single_line(method, 192),
        "args_hash": args_hash,
        "redaction_applied": False,
        "duration": 0.0,
        "status": "",
        "error_code": "",
        "error_message": "",
        "reason": "",
        "request_id": request_id,
        "thread_id": sanitization.single_line(thread_id, 200),
        "session_id": sanitization.single_line(session_id, 200),
        "task_id": sanitization.single_line(task_id, 200),
        "decision_id": decision_id,
        "grant_id": None,
        "role_id": None,
        "chain": [link.as_json() for link in (*callers, ChainLink(agent_id, agent_name))],
        "source": source,
        "details": details or {},
        "row_version": InvocationLog.ROW_VERSION,
        "calls": 1,
    }


def end(
    row: InvocationRow, *, status: str, reason: str = "", error_code: str = "", error_message: str = "",
    duration: float = 0.0, redaction_applied: bool = False, details: dict[str, Any] | None = None,
) -> InvocationRow:  # fmt: skip
    """Return the row with the outcome and the MAC."""
    finished = {
        # A lease of an earlier version lacks this key.
        "calls": 1,
        **row,
        "status": status,
        "reason": reason,
        "error_code": error_code,
        "error_message": sanitization.single_line(error_message, MAX_MESSAGE_LENGTH),
        "duration": round(duration, 3),
        "redaction_applied": redaction_applied,
        "details": {**row["details"], **(details or {})},
        # A lease of an earlier version has a row without this key.
        "row_version": row.get("row_version", 1),
    }
    finished["writer"], finished["writer_seq"] = row_macs.writer.next_number()
    finished["row_mac"] = crypto.compute_row_mac(mac_input(finished))
    return finished


def mac_input(row: InvocationRow) -> bytes:
    names = row_macs.MAC_COLUMNS["nhi_invocation_log", row["row_version"]]
    return canonical_json.encode({name: _plain_value(row[name]) for name in names})


def as_json(row: InvocationRow) -> InvocationRow:
    """Return the row as JSON values, to be stored in a lease until the call ends."""
    return {name: _plain_value(value) for name, value in row.items()}


def from_json(data: InvocationRow) -> InvocationRow:
    """Return the row from the JSON values of a lease."""
    ids = ("id", "run_id", "agent_id", "tool_id", "request_id", "decision_id", "grant_id", "role_id")
    id_values = {name: UUID(data[name]) if data[name] else None for name in ids}
    return {**data, **id_values, "timestamp": datetime.fromisoformat(data["timestamp"])}


def _plain_value(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="microseconds")
    return str(value) if isinstance(value, UUID) else value
