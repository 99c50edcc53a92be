"""Writes leases of calls, only where the caller's access has not changed since the decision."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from mcp.gateway.batch import database
from mcp.gateway.batch.decision import PendingCall
from mcp.gateway.types import CallLease
from mcp.models import Call, CallSlot
from nhi.audit import invocations, row_macs


def write_leases(
    leases: Sequence[tuple[PendingCall, CallLease, datetime]], slots: Sequence[dict[str, Any]]
) -> set[UUID]:
    """Write leases and slots. Return the ids of the leased calls; calls whose access has changed get no lease."""
    if not leases:
        return set()
    owner = row_macs.writer.id
    rows = [
        {
            "id": lease.call_id,
            "agent_id": lease.row["agent_id"],
            "server_id": lease.server_id,
            "tool_id": lease.row["tool_id"],
            "owner": owner,
            "deadline": deadline,
            "stop_reason": "",
            "row": invocations.as_json(lease.row),
            "epoch": pending.facts.row["epoch"],
        }
        for pending, lease, deadline in leases
    ]
    return (
        _write_leases_on_postgresql(rows, slots) if database.is_postgresql() else _write_leases_on_sqlite(rows, slots)
    )


LEASE_SQL = """
INSERT INTO mcp_call (id, agent_id, server_id, tool_id, owner, deadline, stop_reason, row)
SELECT r.id, r.agent_id, r.server_id, r.tool_id, r.owner, r.deadline, '', r.row
FROM jsonb_to_recordset(%s::jsonb) AS r(id uuid, agent_id uuid, server_id uuid, tool_id uuid, owner uuid,
    deadline timestamptz, row jsonb, epoch bigint)
JOIN nhi_identity i ON i.id = r.agent_id AND i.access_epoch = r.epoch
RETURNING id
"""
LEASE_AND_SLOTS_SQL = (
    "WITH leased AS ("  # noqa: S608 - our own words
    + LEASE_SQL
    + """), slots AS (
    INSERT INTO mcp_call_slot (id, budget_id, call_id, deadline) SELECT s.id, s.budget_id, s.call_id, s.deadline
    FROM jsonb_populate_recordset(NULL::mcp_call_slot, %s::jsonb) s JOIN leased ON leased.id = s.call_id
) SELECT id FROM leased"""
)


def _write_leases_on_postgresql(rows: list[dict[str, Any]], slots: Sequence[dict[str, Any]]) -> set[UUID]:
    if slots:
        written = database.run_statement(LEASE_AND_SLOTS_SQL, [database.dump_rows(rows), database.dump_rows(slots)])
    else:
        written = database.run_statement(LEASE_SQL, [database.dump_rows(rows)])
    return {row[0] for row in written}


def _write_leases_on_sqlite(rows: list[dict[str, Any]], slots: Sequence[dict[str, Any]]) -> set[UUID]:
    condition, values = database.id_condition([row["agent_id"] for row in rows])
    epochs = database.run_statement(f"SELECT id, access_epoch FROM nhi_identity WHERE id {condition}", values)  # noqa: S608 - our own names
    current_epochs = {UUID(identity_id): epoch for identity_id, epoch in epochs}
    leased_ids = {row["id"] for row in rows if current_epochs.get(row["agent_id"]) == row["epoch"]}
    database.insert_rows(Call, [row for row in rows if row["id"] in leased_ids])
    database.insert_rows(CallSlot, [slot for slot in slots if slot["call_id"] in leased_ids])
    return leased_ids
