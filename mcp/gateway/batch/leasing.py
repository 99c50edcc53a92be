"""Leases of calls under way, written only where the caller's access is still that of the decision."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from mcp.gateway.batch import database
from mcp.gateway.batch.decision import Draft
from mcp.gateway.types import Ticket
from mcp.models import Call, CallSlot
from nhi.audit import invocations, row_macs


def take(leases: Sequence[tuple[Draft, Ticket, datetime]], slots: Sequence[dict[str, Any]]) -> set[UUID]:
    """The calls that have a lease now, with their slots; not those whose access is another one by now."""
    if not leases:
        return set()
    owner = row_macs.writer.id
    rows = [
        {
            "id": ticket.call_id,
            "agent_id": ticket.row["agent_id"],
            "server_id": ticket.server_id,
            "tool_id": ticket.row["tool_id"],
            "owner": owner,
            "deadline": deadline,
            "stop_reason": "",
            "row": invocations.as_json(ticket.row),
            "epoch": draft.found.row["epoch"],
        }
        for draft, ticket, deadline in leases
    ]
    return _on_postgresql(rows, slots) if database.is_postgresql() else _on_sqlite(rows, slots)


LEASE_ROWS = """
INSERT INTO mcp_call (id, agent_id, server_id, tool_id, owner, deadline, stop_reason, row)
SELECT r.id, r.agent_id, r.server_id, r.tool_id, r.owner, r.deadline, '', r.row
FROM jsonb_to_recordset(%s::jsonb) AS r(id uuid, agent_id uuid, server_id uuid, tool_id uuid, owner uuid,
    deadline timestamptz, row jsonb, epoch bigint)
JOIN nhi_identity i ON i.id = r.agent_id AND i.access_epoch = r.epoch
RETURNING id
"""
LEASE_AND_SLOTS = (
    "WITH leased AS ("  # noqa: S608 - our own words
    + LEASE_ROWS
    + """), slots AS (
    INSERT INTO mcp_call_slot (id, budget_id, call_id, deadline) SELECT s.id, s.budget_id, s.call_id, s.deadline
    FROM jsonb_populate_recordset(NULL::mcp_call_slot, %s::jsonb) s JOIN leased ON leased.id = s.call_id
) SELECT id FROM leased"""
)


def _on_postgresql(rows: list[dict[str, Any]], slots: Sequence[dict[str, Any]]) -> set[UUID]:
    if slots:
        written = database.run(LEASE_AND_SLOTS, [database.as_json(rows), database.as_json(slots)])
    else:
        written = database.run(LEASE_ROWS, [database.as_json(rows)])
    return {row[0] for row in written}


def _on_sqlite(rows: list[dict[str, Any]], slots: Sequence[dict[str, Any]]) -> set[UUID]:
    condition, values = database.ids([row["agent_id"] for row in rows])
    epochs = database.run(f"SELECT id, access_epoch FROM nhi_identity WHERE id {condition}", values)  # noqa: S608 - our own names
    now = {UUID(identity): epoch for identity, epoch in epochs}
    held = {row["id"] for row in rows if now.get(row["agent_id"]) == row["epoch"]}
    database.insert(Call, [row for row in rows if row["id"] in held])
    database.insert(CallSlot, [slot for slot in slots if slot["call_id"] in held])
    return held
