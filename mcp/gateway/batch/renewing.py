"""Renews the leases of this process's active calls, and stops calls whose access was revoked."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID

from mcp.gateway.batch import database
from mcp.gateway.batch.reserving import LEASE_DURATION, LEASE_GRACE
from mcp.gateway.types import CallDecision, CallLease

RENEW_INTERVAL_SECONDS = 10.0
StopCallback = Callable[[str], None]


@dataclass
class ActiveCall:
    lease: CallLease
    started_at: float
    renewed_at: float
    on_stop: StopCallback | None = None
    stop_reason: str = ""


class ActiveCalls:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_call: dict[UUID, ActiveCall] = {}

    def __bool__(self) -> bool:
        return bool(self._by_call)

    def add(self, answer: CallDecision) -> None:
        if isinstance(answer, CallLease):
            now = time.monotonic()
            with self._lock:
                self._by_call[answer.call_id] = ActiveCall(answer, now, now)

    def remove(self, call_id: UUID) -> None:
        with self._lock:
            self._by_call.pop(call_id, None)

    def on_stop(self, call_id: UUID, stop: StopCallback) -> None:
        """Register the callback that stops this call. If the call must already stop, the callback runs at once."""
        with self._lock:
            flight = self._by_call.get(call_id)
            if flight is not None:
                flight.on_stop = stop
        if flight is not None and flight.stop_reason:
            stop(flight.stop_reason)

    def renew_leases(self) -> None:
        """Notify calls that were stopped and extend the leases that are due."""
        with self._lock:
            flights = dict(self._by_call)
        if not flights:
            return
        self._notify_stopped(flights)
        now = time.monotonic()
        due = [flight for flight in flights.values() if now - flight.renewed_at >= RENEW_INTERVAL_SECONDS]
        for flight in due:
            self._extend_lease(flight, now)

    def _notify_stopped(self, flights: dict[UUID, ActiveCall]) -> None:
        condition, values = database.id_condition(list(flights))
        rows = database.run_statement(
            f"SELECT id, stop_reason FROM mcp_call WHERE id {condition} AND stop_reason <> ''",  # noqa: S608 - our own names
            values,
        )
        for call_id, reason in rows:
            flight = flights[UUID(str(call_id))]
            if not flight.stop_reason:
                flight.stop_reason = reason
                if flight.on_stop is not None:
                    flight.on_stop(reason)

    def _extend_lease(self, flight: ActiveCall, now: float) -> None:
        """Extend a lease, but never past the call's own deadline, so that a hanging process does not keep its slots."""
        left = flight.lease.timeout + LEASE_GRACE.total_seconds() - (now - flight.started_at)
        seconds = min(LEASE_DURATION.total_seconds(), left)
        if seconds > 0:
            for table, column in (("mcp_call", "id"), ("mcp_call_slot", "call_id")):
                database.run_statement(
                    f"UPDATE {table} SET deadline = {_deadline_sql()} WHERE {column} = %s",  # noqa: S608 - our own names
                    [
                        seconds if database.is_postgresql() else f"+{seconds} seconds",
                        database.to_database_id(flight.lease.call_id),
                    ],
                )
        flight.renewed_at = now


def _deadline_sql() -> str:
    if database.is_postgresql():
        return "STATEMENT_TIMESTAMP() + make_interval(secs => %s)"
    return "STRFTIME('%%Y-%%m-%%d %%H:%%M:%%f', 'NOW', %s)"
