"""Ends leases and writes log rows of finished and lost calls. Only the process that ends a lease writes the row."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from django.db import transaction

from common.context import RequestContext, bind_context
from common.db import clock
from common.ids import uuid7
from mcp.gateway.batch import database
from mcp.gateway.types import CallResult
from mcp.limits import breakers
from mcp.models import Call
from nhi.actors import SYSTEM
from nhi.audit import events, invocations
from nhi.choices import CallStatus
from nhi.decisions import reasons
from nhi.models import InvocationLog

LOG_COLUMNS = ", ".join(invocations.COLUMNS)
LOG_VALUES = ", ".join(f"r.{column}" for column in invocations.COLUMNS)
LOST_MESSAGE = "The process that made this call is gone, or was not heard of in time."


def write_results(results: Sequence[CallResult]) -> set[UUID]:
    """Write results. Return the ids of the written calls; other calls were given up earlier and have their row."""
    rows = [_build_row(result) for result in results]
    service_updates = [result for result in results if result.updates_service]
    slots = [result.held_lease.call_id for result in results if result.held_lease.has_slots]
    if database.is_postgresql() and not service_updates:
        return _log_late_results(results, _end_leases_and_insert(rows, slots))
    with transaction.atomic():
        written = _end_leases_and_insert(rows, slots)
        # Every process updates in the same order, so that two processes with the same servers do not deadlock.
        for result in sorted(service_updates, key=lambda result: result.held_lease.server_id):
            _update_breaker(result)
        return _log_late_results(results, written)


def write_results_again(results: Sequence[CallResult]) -> set[UUID]:
    """Write results again after a commit of which nobody knows whether it succeeded. No row is written twice."""
    condition, values = database.id_condition([result.held_lease.call_id for result in results])
    rows = database.run_statement(f"SELECT id FROM nhi_invocation_log WHERE id {condition}", values)  # noqa: S608 - our own names
    existing_ids = {UUID(str(row[0])) for row in rows}
    missing = [result for result in results if result.held_lease.call_id not in existing_ids]
    return existing_ids | (write_results(missing) if missing else set())


def check_writable() -> None:
    """Insert a log row and roll it back. Fails as the row of a call would."""
    fake_id = uuid7()
    row = invocations.begin(
        call_id=fake_id, at=clock.database_now(), agent=(fake_id, ""), tool_id=None, tool_name="", method="",
        args_hash="", request_id=fake_id, source="",
    )  # fmt: skip
    with transaction.atomic():
        database.insert_rows(InvocationLog, [invocations.end(row, status=CallStatus.ERROR)])
        transaction.set_rollback(True)


def reap_lost_calls(limit: int = 500) -> int:
    """End the calls whose leases expired because their process is gone. Each gets its log row."""
    now = clock.database_now()
    with transaction.atomic():
        overdue = Call.objects.select_for_update(skip_locked=database.is_postgresql()).filter(deadline__lte=now)
        leases = list(overdue.order_by("id")[:limit])
        rows = []
        for lease in leases:
            log_row = invocations.from_json(lease.row)
            duration = (now - log_row["timestamp"]).total_seconds() * 1000
            rows.append(
                invocations.end(
                    log_row, status=CallStatus.ERROR, reason="lost", error_code=reasons.TIMED_OUT.error_code,
                    error_message=LOST_MESSAGE,
                    duration=duration,
                )
            )  # fmt: skip
        _end_leases_and_insert(rows, [lease.pk for lease in leases])
    return len(leases)


def _build_row(result: CallResult) -> dict[str, Any]:
    return invocations.end(
        result.held_lease.row,
        status=result.status,
        reason=result.reason,
        error_code=result.error_code,
        error_message=result.log_message,
        duration=result.duration_ms,
        redaction_applied=result.redacted,
        details=result.details,
    )


def _end_leases_and_insert(rows: list[dict[str, Any]], slots: Sequence[UUID]) -> set[UUID]:
    """Delete leases and budget slots. Insert the rows of the calls that had a lease and return their ids."""
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
        deleted = database.run_statement(f"DELETE FROM mcp_call WHERE id {condition} RETURNING id", values)  # noqa: S608 - our own names
        ended_ids = {UUID(row[0]) for row in deleted}
        if slots:
            condition, values = database.id_condition(slots)
            database.run_statement(f"DELETE FROM mcp_call_slot WHERE call_id {condition}", values)  # noqa: S608 - the same
        database.insert_rows(InvocationLog, [row for row in rows if row["id"] in ended_ids])
    return ended_ids


def _end_leases_sql(has_slots: bool) -> str:
    slots_sql = ", freed AS (DELETE FROM mcp_call_slot WHERE call_id = ANY(%s))" if has_slots else ""
    return (
        f"WITH taken AS (DELETE FROM mcp_call WHERE id = ANY(%s) RETURNING id){slots_sql}"  # noqa: S608 - our own names
        f" INSERT INTO nhi_invocation_log ({LOG_COLUMNS}) SELECT {LOG_VALUES}"
        f" FROM {database.recordset_sql('nhi_invocation_log')} r JOIN taken ON taken.id = r.id RETURNING id"
    )


def _update_breaker(result: CallResult) -> None:
    """Record every fault with the breaker, and a success only when the breaker or the status must change."""
    lease = result.held_lease
    if not result.service_verdict:
        # The result says nothing about the service. If this call was a probe, the next call may probe.
        breakers.release_probe(lease.call_id)
    elif result.service_verdict == "success":
        breakers.record_server_success(lease.server_id, agent_id=lease.row["agent_id"], call_id=lease.call_id)
    else:
        fault = breakers.ServerFault(
            result.fault_kind, result.log_message, lease.row["agent_id"], lease.row["agent_name"], lease.call_id
        )
        breakers.record_server_fault(lease.server_id, fault)


def _log_late_results(results: Sequence[CallResult], written: set[UUID]) -> set[UUID]:
    for result in results:
        lease = result.held_lease
        if lease.call_id not in written:
            row = lease.row
            with bind_context(RequestContext(row["request_id"], row["source"])), transaction.atomic():
                events.write(
                    "call.late_result",
                    actor=SYSTEM,
                    subject_kind="call",
                    subject_id=lease.call_id,
                    subject_name=f"{row['method']} on {row['tool_name']} by {row['agent_name']}",
                    details={"status": result.status},
                )
    return written
