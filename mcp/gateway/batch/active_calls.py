"""Keeps active calls alive by renewing their leases, and stops those that were cancelled or lost their access."""

import asyncio
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from uuid import UUID

from django.db.models import Q, QuerySet

from mcp.gateway.batch import database
from mcp.gateway.batch.batch_transaction import LEASE_DURATION, LEASE_GRACE
from mcp.gateway.types import CallDecision, CallLease
from mcp.models import Call
from nhi.hooks import StopStep
from nhi.models import Identity

RENEW_INTERVAL_SECONDS = 10.0


class CancelSignal:
    """Cancels the current task when its call must stop. Has no effect once it is closed."""

    def __init__(self) -> None:
        self.reason = ""
        self._task = asyncio.current_task()
        self._loop = asyncio.get_running_loop()
        self._is_active = True

    def send(self, reason: str) -> None:
        """Cancel the task from any thread."""
        self._loop.call_soon_threadsafe(self._cancel, reason)

    def close(self) -> None:
        self._is_active = False

    def _cancel(self, reason: str) -> None:
        if self._is_active and self._task is not None:
            self.reason = reason
            self._task.cancel()


@dataclass
class ActiveCall:
    """A call that this process is making. `stop_reason` is empty while the call may continue."""

    lease: CallLease
    started_at: float
    renewed_at: float
    cancel_signal: CancelSignal | None = None
    stop_reason: str = ""


class ActiveCalls:
    """The calls that this process is making, by id. All threads may use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_call: dict[UUID, ActiveCall] = {}

    def __bool__(self) -> bool:
        return bool(self._by_call)

    def add(self, decision: CallDecision) -> None:
        if isinstance(decision, CallLease):
            now = time.monotonic()
            with self._lock:
                self._by_call[decision.call_id] = ActiveCall(decision, now, now)

    def remove(self, call_id: UUID) -> None:
        with self._lock:
            self._by_call.pop(call_id, None)

    @contextmanager
    def cancel_when_stopped(self, call_id: UUID) -> Iterator[CancelSignal]:
        """Cancel the current task inside the block when this call must stop, or at once if it must already."""
        cancel_signal = CancelSignal()
        with self._lock:
            call = self._by_call.get(call_id)
            if call is not None:
                call.cancel_signal = cancel_signal
        if call is not None and call.stop_reason:
            cancel_signal.send(call.stop_reason)
        try:
            yield cancel_signal
        finally:
            cancel_signal.close()

    def renew_leases(self) -> None:
        """Notify calls that were stopped and extend the leases that are due."""
        with self._lock:
            calls = dict(self._by_call)
        if not calls:
            return
        self._notify_stopped(calls)
        now = time.monotonic()
        due = [call for call in calls.values() if now - call.renewed_at >= RENEW_INTERVAL_SECONDS]
        for call in due:
            self._extend_lease(call, now)

    def _notify_stopped(self, calls: dict[UUID, ActiveCall]) -> None:
        condition, values = database.id_condition(list(calls))
        rows = database.run_statement(
            f"SELECT id, stop_reason FROM mcp_call WHERE id {condition} AND stop_reason <> ''",  # noqa: S608 - our own names
            values,
        )
        for call_id, reason in rows:
            call = calls[UUID(str(call_id))]
            if not call.stop_reason:
                call.stop_reason = reason
                if call.cancel_signal is not None:
                    call.cancel_signal.send(reason)

    def _extend_lease(self, call: ActiveCall, now: float) -> None:
        """Extend a lease, but never past the call's own deadline, so that a hanging process does not keep its slots."""
        remaining_seconds = call.lease.timeout + LEASE_GRACE.total_seconds() - (now - call.started_at)
        seconds = min(LEASE_DURATION.total_seconds(), remaining_seconds)
        if seconds > 0:
            for table, column in (("mcp_call", "id"), ("mcp_call_slot", "call_id")):
                database.run_statement(
                    f"UPDATE {table} SET deadline = {_deadline_sql()} WHERE {column} = %s",  # noqa: S608 - our own names
                    [
                        seconds if database.is_postgresql() else f"+{seconds} seconds",
                        database.to_database_id(call.lease.call_id),
                    ],
                )
        call.renewed_at = now


def _deadline_sql() -> str:
    if database.is_postgresql():
        return "STATEMENT_TIMESTAMP() + make_interval(secs => %s)"
    return "STRFTIME('%%Y-%%m-%%d %%H:%%M:%%f', 'NOW', %s)"


STOP_REASON = "revoked_in_flight"
CANCEL_REASON = "cancelled"


def count_calls(identities: Sequence[Identity]) -> int:
    return _calls_of(identities).count()


def stop_calls(identity: Identity) -> int:
    """Mark the active calls to be stopped. The processes that make them check every second."""
    return _calls_of([identity]).update(stop_reason=STOP_REASON)


def cancel_call(identity_id: UUID, cancel_key: str) -> int:
    """Mark this identity's active call with the key to be stopped. Return 0 if there is none, or it stops already."""
    active = Call.objects.filter(cancel_key=cancel_key, agent_id=identity_id, stop_reason="")
    return active.update(stop_reason=CANCEL_REASON)


def _calls_of(identities: Sequence[Identity]) -> "QuerySet[Call]":
    ids = [identity.pk for identity in identities]
    return Call.objects.filter(Q(agent_id__in=ids) | Q(tool_id__in=ids), stop_reason="")


CALLS_STOP_STEP = StopStep("calls", stop_calls, count_calls)
