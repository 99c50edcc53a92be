"""Writing what became of calls: the lease is taken away, and only who took it writes the row."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from django.db import transaction

from common.context import RequestContext, bind_context
from common.db import clock
from common.ids import uuid7
from mcp.choices import BreakerState
from mcp.gateway.batch import database
from mcp.gateway.types import CallOutcome
from mcp.limits import breakers
from mcp.models import Breaker, Call
from mcp.servers import connection_status
from nhi.actors import SYSTEM
from nhi.audit import events, invocations
from nhi.choices import CallStatus
from nhi.models import InvocationLog

LOG_COLUMNS = ", ".join(invocations.COLUMNS)
LOG_VALUES = ", ".join(f"r.{column}" for column in invocations.COLUMNS)
LOST_MESSAGE = "The process that made this call is gone, or was not heard of in time."


def write_outcomes(outcomes: Sequence[CallOutcome]) -> set[UUID]:
    """The calls whose rows are written; what is missing was given up before, and has its row already."""
    rows = [_build_row(outcome) for outcome in outcomes]
    asides = [outcome for outcome in outcomes if outcome.updates_service]
    slots = [outcome.lease.call_id for outcome in outcomes if outcome.lease.has_slots]
    if database.is_postgresql() and not asides:
        return _log_late_results(outcomes, _end_leases_and_insert(rows, slots))
    with transaction.atomic():
        written = _end_leases_and_insert(rows, slots)
        # In one order for every process: two that learn of the same servers must not wait for each other.
        for outcome in sorted(asides, key=lambda outcome: outcome.lease.server_id):
            _update_breaker(outcome)
        return _log_late_results(outcomes, written)


def write_outcomes_again(outcomes: Sequence[CallOutcome]) -> set[UUID]:
    """After a commit of which nothing was heard: what is in the log was written then."""
    condition, values = database.id_condition([outcome.lease.call_id for outcome in outcomes])
    found = database.run_statement(f"SELECT id FROM nhi_invocation_log WHERE id {condition}", values)  # noqa: S608 - our own names
    there = {UUID(str(row[0])) for row in found}
    left = [outcome for outcome in outcomes if outcome.lease.call_id not in there]
    return there | (write_outcomes(left) if left else set())


def check_writable() -> None:
    """Write a row and take it back, or fail as a row of a call would."""
    nobody = uuid7()
    row = invocations.begin(
        call_id=nobody, at=clock.database_now(), agent=(nobody, ""), tool_id=None, tool_name="", method="",
        args_hash="", request_id=nobody, source="",
    )  # fmt: skip
    with transaction.atomic():
        database.insert_rows(InvocationLog, [invocations.end(row, status=CallStatus.ERROR)])
        transaction.set_rollback(True)


def reap_lost_calls(most: int = 500) -> int:
    """Give up the calls whose leases ran out: their process is gone. One row each, as for every call."""
    now = clock.database_now()
    with transaction.atomic():
        overdue = Call.objects.select_for_update(skip_locked=database.is_postgresql()).filter(deadline__lte=now)
        leases = list(overdue.order_by("id")[:most])
        rows = []
        for lease in leases:
            begun = invocations.from_json(lease.row)
            duration = (now - begun["timestamp"]).total_seconds() * 1000
            rows.append(
                invocations.end(
                    begun, status=CallStatus.ERROR, reason="lost", error_code="Timeout", error_message=LOST_MESSAGE,
                    duration=duration,
                )
            )  # fmt: skip
        _end_leases_and_insert(rows, [lease.pk for lease in leases])
    return len(leases)


def _build_row(outcome: CallOutcome) -> dict[str, Any]:
    return invocations.end(
        outcome.lease.row,
        status=outcome.status,
        reason=outcome.reason,
        error_code=outcome.error_code,
        error_message=outcome.error_message,
        duration=outcome.duration,
        redaction_applied=outcome.redaction_applied,
        details=outcome.details,
    )


def _end_leases_and_insert(rows: list[dict[str, Any]], slots: Sequence[UUID]) -> set[UUID]:
    """Leases and the slots of their budgets go; what had a lease gets its row."""
    if not rows:
        return set()
    ids = [row["id"] for row in rows]
    if database.is_postgresql():
        return {
            row[0]
            for row in database.run_statement(
                _end_leases_sql(bool(slots)), [ids, *([list(slots)] if slots else []), database.dump_rows(rows)]
            )
        }
    with transaction.atomic():
        condition, values = database.id_condition(ids)
        gone = database.run_statement(f"DELETE FROM mcp_call WHERE id {condition} RETURNING id", values)  # noqa: S608 - our own names
        taken = {UUID(row[0]) for row in gone}
        if slots:
            condition, values = database.id_condition(slots)
            database.run_statement(f"DELETE FROM mcp_call_slot WHERE call_id {condition}", values)  # noqa: S608 - the same
        database.insert_rows(InvocationLog, [row for row in rows if row["id"] in taken])
    return taken


def _end_leases_sql(slots: bool) -> str:
    freed = ", freed AS (DELETE FROM mcp_call_slot WHERE call_id = ANY(%s))" if slots else ""
    return (
        f"WITH taken AS (DELETE FROM mcp_call WHERE id = ANY(%s) RETURNING id){freed}"  # noqa: S608 - our own names
        f" INSERT INTO nhi_invocation_log ({LOG_COLUMNS}) SELECT {LOG_VALUES}"
        f" FROM {database.recordset_sql('nhi_invocation_log')} r JOIN taken ON taken.id = r.id RETURNING id"
    )


def update_server_status(outcome: CallOutcome) -> None:
    """Its status learns what the breaker has learned; by itself, for whoever takes down its tools holds its row."""
    server_id = outcome.lease.server_id
    if outcome.service_verdict == "success":
        connection_status.record_success(server_id)
    elif outcome.service_verdict == "fault":
        opened = Breaker.objects.for_all().filter(server_id=server_id, state=BreakerState.OPEN).exists()
        connection_status.record_fault(server_id, outcome.error_message, gone=opened)


def _update_breaker(outcome: CallOutcome) -> None:
    """It learns of every fault, and of a success when there is something to put right."""
    ticket = outcome.lease
    if not outcome.service_verdict:
        # It says nothing of the service; if it was to try whether that is back, the next call may.
        breakers.release_probe(ticket.call_id)
    elif outcome.service_verdict == "success":
        breakers.record_server_success(ticket.server_id, agent_id=ticket.row["agent_id"], call_id=ticket.call_id)
    else:
        met = breakers.ServerFault(
            outcome.fault_kind, outcome.error_message, ticket.row["agent_id"], ticket.row["agent_name"], ticket.call_id
        )
        breakers.record_server_fault(ticket.server_id, met)


def _log_late_results(outcomes: Sequence[CallOutcome], written: set[UUID]) -> set[UUID]:
    for outcome in outcomes:
        if outcome.lease.call_id not in written:
            row = outcome.lease.row
            with bind_context(RequestContext(row["request_id"], row["source"])), transaction.atomic():
                events.write(
                    "call.late_result",
                    actor=SYSTEM,
                    subject_kind="call",
                    subject_id=outcome.lease.call_id,
                    subject_name=f"{row['method']} on {row['tool_name']} by {row['agent_name']}",
                    details={"status": outcome.status},
                )
    return written
