"""The thread of each process that decides and records queued calls, a batch at a time.

A decision reads committed facts after its request arrived, and it is delivered after a commit. All calls of a batch
share the cost of both.
"""

import logging
import os
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

from django.db import DatabaseError, InterfaceError, OperationalError, connection
from psycopg.errors import DeadlockDetected, LockNotAvailable

from common.errors import RecordUnavailable
from mcp.gateway.batch import active_calls, batch_transaction, database, result_writer
from mcp.gateway.batch.fair_queue import FairQueue, QueueLimits, caller_keys
from mcp.gateway.types import (
    CallDecision,
    CallerOverloaded,
    CallOutcome,
    CallRequest,
    DatabaseUnavailable,
    GatewayOverloaded,
)
from nhi.credentials import tokens

log = logging.getLogger(__name__)

#: A call that arrives during a batch waits for its end, so each of several active callers gets a small part of it.
QUEUE_LIMITS = QueueLimits(total=4000, per_caller=1000, batch=200, per_caller_in_batch=4, contention_seconds=0.5)
#: Interval of maintaining the leases of active calls and retrying rows that could not be written.
TICK_SECONDS = 1.0
MAX_STOP_SECONDS = 10.0
#: How often a call is decided again because access changed between reading and writing.
MAX_ATTEMPTS = 5
DB_ERRORS = (OperationalError, InterfaceError)
#: Another transaction held a row for too long. The database works and nothing was written, so a batch is tried again.
#: A deadlock may end as either of them, whichever timeout passes first.
LOCK_ERRORS = (DeadlockDetected, LockNotAvailable)


@dataclass
class WorkItem:
    """A call to decide or an outcome to record, with the future for the result."""

    work: CallRequest | CallOutcome
    future: "Future[Any]" = field(default_factory=Future)


class BatchWorker:
    """The queue of this process and the thread that processes it. The first item starts the thread."""

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Reset all state: a forked process inherits neither the thread nor the calls of its parent."""
        self._items: FairQueue[WorkItem] = FairQueue(QUEUE_LIMITS)
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self.active_calls = active_calls.ActiveCalls()
        #: Outcomes that could not be written. Nothing is decided while there are any.
        self._pending_outcomes: list[CallOutcome] = []
        #: A row could not be written. A test write must succeed before the next decision.
        self._needs_write_check = False

    def require_capacity(self, token: tokens.ParsedBearerToken, source: str) -> None:
        """Raise an overload error if the call could not be decided in time, before it costs anything more."""
        if not self._items.has_capacity(caller_keys.key(token, source)):
            raise self._build_overload_error()

    def decide(self, request: CallRequest) -> "Future[CallDecision]":
        item = WorkItem(request)
        if self._items.put(caller_keys.key(request.token, request.source), item):
            self._ensure_thread()
        else:
            item.future.set_exception(self._build_overload_error())
        return item.future

    def record(self, outcome: CallOutcome) -> "Future[bool]":
        """Queue an outcome. The result is True when it is the call's row, False when the call was given up before."""
        item = WorkItem(outcome)
        self._items.put_first(item)
        self._ensure_thread()
        return item.future

    def stop(self) -> None:
        """Process all queued items, then end the thread. A call that is given up meanwhile gets its row as well."""
        deadline = time.monotonic() + MAX_STOP_SECONDS
        while time.monotonic() < deadline:
            with self._lock:
                thread, self._thread = self._thread, None
            if thread is None:
                return
            self._items.close()
            thread.join(max(deadline - time.monotonic(), 0))

    def _build_overload_error(self) -> GatewayOverloaded | CallerOverloaded:
        if self._items.is_full():
            return GatewayOverloaded("More calls wait than can be decided in time.", retry_after=1)
        return CallerOverloaded("More calls of this identity wait than can be decided in time.", retry_after=1)

    def _ensure_thread(self) -> None:
        if self._thread is not None:
            return
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="clerk", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        last_maintenance, closed = time.monotonic(), False
        while True:
            batch = self._items.take_batch(0 if closed else TICK_SECONDS)
            self._process_batch(batch.items)
            closed = closed or batch.closed
            if closed and self._items.is_empty():
                connection.close()
                return
            if time.monotonic() - last_maintenance >= TICK_SECONDS:
                last_maintenance = time.monotonic()
                self._maintain_active_calls()

    def _process_batch(self, batch: Sequence[WorkItem]) -> None:
        outcomes = [item for item in batch if isinstance(item.work, CallOutcome)]
        # Calls whose caller has left are not decided.
        requests = [
            item for item in batch if isinstance(item.work, CallRequest) and item.future.set_running_or_notify_cancel()
        ]
        if outcomes:
            self._process_together(outcomes, self._record)
        if requests:
            self._process_together(requests, self._reserve)

    def _process_together(
        self, items: Sequence[WorkItem], work: Callable[[Sequence[WorkItem]], None], tries: int = 2
    ) -> None:
        """Process items together, or one by one if that fails because of a single item."""
        try:
            database.prepare_connection()
            work(items)
        except RecordUnavailable as error:
            self._fail(items, error)
        except DB_ERRORS as error:
            if tries > 1 and isinstance(error.__cause__, LOCK_ERRORS):
                self._process_together(items, work, tries - 1)
                return
            log.warning("the database is away", exc_info=error)
            with suppress(Exception):
                connection.close()
            self._fail(items, DatabaseUnavailable())
        except Exception as error:
            self._process_separately(items, error, tries)

    def _process_separately(self, items: Sequence[WorkItem], error: Exception, tries: int) -> None:
        """Process items one by one to isolate the one that fails. A single item is tried once more, as a row of another
        transaction may have caused the failure. Rows that were written before an error are not written twice."""
        unfinished = [item for item in items if not item.future.done()]
        if len(unfinished) > 1 or (unfinished and tries > 1):
            for item in unfinished:
                self._process_together(
                    [item], self._reserve if isinstance(item.work, CallRequest) else self._record_again, 1
                )
            return
        log.error("a call could not be worked off", exc_info=error)
        self._needs_write_check = self._needs_write_check or isinstance(error, DatabaseError)
        self._fail(unfinished, RecordUnavailable() if isinstance(error, DatabaseError) else error)

    def _fail(self, items: Sequence[WorkItem], error: Exception) -> None:
        for item in items:
            if item.future.done():
                continue
            if isinstance(item.work, CallOutcome):
                self._pending_outcomes.append(item.work)
                error = RecordUnavailable()
            item.future.set_exception(error)

    def _reserve(self, items: Sequence[WorkItem]) -> None:
        if self._pending_outcomes:
            raise RecordUnavailable
        if self._needs_write_check:
            result_writer.check_writable()
            self._needs_write_check = False
        by_call = {item.work.call_id: item for item in items if isinstance(item.work, CallRequest)}
        decisions = batch_transaction.reserve_calls(
            [item.work for item in by_call.values() if isinstance(item.work, CallRequest)]
        )
        for call_id, decision in decisions.items():
            self._deliver_decision(by_call[call_id], decision)

    def _deliver_decision(self, item: WorkItem, decision: CallDecision | None) -> None:
        assert isinstance(item.work, CallRequest)
        if decision is not None:
            self.active_calls.add(decision)
            item.future.set_result(decision)
        elif item.work.attempts >= MAX_ATTEMPTS:
            item.future.set_exception(GatewayOverloaded("Access changes too fast to decide.", retry_after=1))
        else:
            retry_item = WorkItem(replace(item.work, attempts=item.work.attempts + 1), item.future)
            self._retry_now(retry_item)

    def _retry_now(self, item: WorkItem) -> None:
        """Decide an item again at once, before items that arrived later."""
        self._process_together([item], self._reserve)

    def _record(self, items: Sequence[WorkItem]) -> None:
        self._write_outcomes(items, result_writer.write_outcomes)

    def _record_again(self, items: Sequence[WorkItem]) -> None:
        self._write_outcomes(items, result_writer.write_outcomes_again)

    def _write_outcomes(self, items: Sequence[WorkItem], write: Callable[[Sequence[CallOutcome]], set[UUID]]) -> None:
        outcomes = [item.work for item in items if isinstance(item.work, CallOutcome)]
        written = write(outcomes)
        for item, outcome in zip(items, outcomes, strict=True):
            self.active_calls.remove(outcome.lease.call_id)
            item.future.set_result(outcome.lease.call_id in written)

    def _maintain_active_calls(self) -> None:
        if not self._pending_outcomes and not self.active_calls:
            return
        try:
            database.prepare_connection()
            self._write_pending_outcomes()
            self.active_calls.renew_leases()
        except Exception:
            # The next tick tries again. Until then nothing is decided that could not be recorded.
            log.warning("calls in flight could not be looked after", exc_info=True)
            with suppress(Exception):
                connection.close()

    def _write_pending_outcomes(self) -> None:
        """Retry outcomes. One that the database rejects is dropped; its call gets a row when its lease expires."""
        while self._pending_outcomes:
            outcome = self._pending_outcomes[0]
            try:
                result_writer.write_outcomes_again([outcome])
            except DB_ERRORS:
                raise
            except Exception:
                result_writer.check_writable()
                log.exception("a call's row is refused as it is", extra={"call_id": str(outcome.lease.call_id)})
            self.active_calls.remove(outcome.lease.call_id)
            self._pending_outcomes.pop(0)


batch_worker = BatchWorker()
os.register_at_fork(after_in_child=batch_worker.restart)
