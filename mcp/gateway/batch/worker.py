"""The thread of each process that decides and records queued calls, a batch at a time.

A decision reads committed facts after its request arrived, and it is delivered after a commit. All calls of a batch
share the cost of both.
"""

import asyncio
import logging
import os
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TypeVar
from uuid import UUID

from django.db import DatabaseError, InterfaceError, OperationalError, connection
from psycopg.errors import DeadlockDetected, LockNotAvailable

from common.errors import RecordUnavailable
from mcp.gateway.batch import active_calls, batch_transaction, database, result_writer
from mcp.gateway.batch.fair_queue import FairQueue, QueueLimits, caller_keys
from mcp.gateway.types import (
    CallDecision,
    CallerOverloaded,
    CallLease,
    CallRequest,
    CallResult,
    CheckedArguments,
    DatabaseUnavailable,
    GatewayOverloaded,
)
from nhi.choices import CallStatus
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
#: Another transaction held a row for too long. The database works, so a batch is tried once more.
#: A deadlock may end as either of them, whichever timeout passes first.
LOCK_ERRORS = (DeadlockDetected, LockNotAvailable)
#: A hanging database can block the worker for longer than its statement timeouts. Callers get an error after this.
#: It is longer than the lock timeouts of a batch of results and a batch of requests, each with its second try.
ANSWER_TIMEOUT_SECONDS = 2.5
CALLER_GONE_MESSAGE = "The caller went away, or the process that made the call was stopped."


@dataclass
class QueuedRequest:
    """A call to decide, with the future for its decision."""

    request: CallRequest
    checked: CheckedArguments
    #: How often the call was decided again because access changed between reading and writing.
    attempts: int = 0
    future: "Future[CallDecision]" = field(default_factory=Future)


@dataclass
class QueuedResult:
    """A call's result that waits in the queue to be recorded. The future tells whether it became the call's row."""

    result: CallResult
    future: "Future[bool]" = field(default_factory=Future)


WorkItem = QueuedRequest | QueuedResult
ItemT = TypeVar("ItemT", QueuedRequest, QueuedResult)


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
        #: Results that could not be written. Nothing is decided while there are any.
        self._pending_results: list[CallResult] = []
        #: A row could not be written. A test write must succeed before the next decision.
        self._needs_write_check = False

    def require_capacity(self, token: tokens.ParsedBearerToken, source: str) -> None:
        """Raise an overload error if the call could not be decided in time, before it costs anything more."""
        if not self._items.has_capacity(caller_keys.key(token, source)):
            raise self._build_overload_error()

    async def decide_for_caller(self, request: CallRequest, checked: CheckedArguments) -> CallDecision:
        """Wait for the decision. If the caller leaves first, a lease written later is ended as cancelled."""
        future = self.decide(request, checked)
        try:
            async with asyncio.timeout(ANSWER_TIMEOUT_SECONDS):
                return await asyncio.wrap_future(future)
        except TimeoutError as error:
            future.add_done_callback(self._record_abandoned_call)
            raise DatabaseUnavailable from error
        except asyncio.CancelledError:
            future.add_done_callback(self._record_abandoned_call)
            raise

    async def record_for_caller(self, result: CallResult) -> bool:
        """Wait until the result is recorded. Shielded, so that a cancelled caller gets its row too."""
        try:
            async with asyncio.timeout(ANSWER_TIMEOUT_SECONDS):
                return await asyncio.shield(asyncio.wrap_future(self.record(result)))
        except TimeoutError as error:
            raise RecordUnavailable from error

    def decide(self, request: CallRequest, checked: CheckedArguments) -> "Future[CallDecision]":
        item = QueuedRequest(request, checked)
        if self._items.put(caller_keys.key(request.token, request.source), item):
            self._ensure_thread()
        else:
            item.future.set_exception(self._build_overload_error())
        return item.future

    def record(self, result: CallResult) -> "Future[bool]":
        """Queue a result. The future is True when it is the call's row, False when the call was given up before."""
        # The row has no body. During an outage results wait here, and bodies would fill the memory.
        item = QueuedResult(replace(result, result=None))
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
        results = [item for item in batch if isinstance(item, QueuedResult)]
        # Calls whose caller has left are not decided.
        requests = [
            item for item in batch if isinstance(item, QueuedRequest) and item.future.set_running_or_notify_cancel()
        ]
        if results:
            self._process_together(results, self._record, self._record_again)
        if requests:
            self._process_together(requests, self._reserve, self._reserve)

    def _process_together(
        self,
        items: Sequence[ItemT],
        work: Callable[[Sequence[ItemT]], None],
        work_again: Callable[[Sequence[ItemT]], None],
        tries: int = 2,
    ) -> None:
        """Process items together, or one by one with `work_again` if that fails because of a single item."""
        try:
            database.prepare_connection()
            work(items)
        except RecordUnavailable as error:
            self._fail(items, error)
        except DB_ERRORS as error:
            if not isinstance(error.__cause__, LOCK_ERRORS):
                log.warning("the database is away", exc_info=error)
                with suppress(Exception):
                    connection.close()
                self._fail(items, DatabaseUnavailable())
            elif tries > 1:
                self._process_together(items, work_again, work_again, tries - 1)
            else:
                log.warning("a row was locked for too long", exc_info=error)
                self._fail(items, DatabaseUnavailable())
        except Exception as error:
            self._process_separately(items, work_again, error, tries)

    def _process_separately(
        self, items: Sequence[ItemT], work_again: Callable[[Sequence[ItemT]], None], error: Exception, tries: int
    ) -> None:
        """Process items one by one to isolate the one that fails. A single item is tried once more, as a row of another
        transaction may have caused the failure. Rows that were written before an error are not written twice."""
        unfinished = [item for item in items if not item.future.done()]
        if len(unfinished) > 1 or (unfinished and tries > 1):
            for item in unfinished:
                self._process_together([item], work_again, work_again, 1)
            return
        log.error("a call could not be worked off", exc_info=error)
        self._needs_write_check = self._needs_write_check or isinstance(error, DatabaseError)
        self._fail(unfinished, RecordUnavailable() if isinstance(error, DatabaseError) else error)

    def _fail(self, items: Sequence[WorkItem], error: Exception) -> None:
        for item in items:
            if item.future.done():
                continue
            if isinstance(item, QueuedResult):
                self._pending_results.append(item.result)
                error = RecordUnavailable()
            item.future.set_exception(error)

    def _reserve(self, items: Sequence[QueuedRequest]) -> None:
        if self._pending_results:
            raise RecordUnavailable
        if self._needs_write_check:
            result_writer.check_writable()
            self._needs_write_check = False
        by_call = {item.request.call_id: item for item in items}
        decisions = batch_transaction.reserve_calls([(item.request, item.checked) for item in items])
        for call_id, decision in decisions.items():
            self._deliver_decision(by_call[call_id], decision)

    def _deliver_decision(self, item: QueuedRequest, decision: CallDecision | None) -> None:
        if decision is not None:
            self.active_calls.add(decision)
            item.future.set_result(decision)
        elif item.attempts >= MAX_ATTEMPTS:
            item.future.set_exception(GatewayOverloaded("Access changes too fast to decide.", retry_after=1))
        else:
            item.attempts += 1
            self._retry_now(item)

    def _retry_now(self, item: QueuedRequest) -> None:
        """Decide a call again at once, before calls that arrived later."""
        self._process_together([item], self._reserve, self._reserve)

    def _record(self, items: Sequence[QueuedResult]) -> None:
        self._write_results(items, result_writer.write_results)

    def _record_again(self, items: Sequence[QueuedResult]) -> None:
        self._write_results(items, result_writer.write_results_again)

    def _write_results(self, items: Sequence[QueuedResult], write: Callable[[Sequence[CallResult]], set[UUID]]) -> None:
        written = write([item.result for item in items])
        for item in items:
            call_id = item.result.held_lease.call_id
            self.active_calls.remove(call_id)
            item.future.set_result(call_id in written)

    def _record_abandoned_call(self, future: "Future[CallDecision]") -> None:
        if future.cancelled() or future.exception() is not None:
            return
        decision = future.result()
        if isinstance(decision, CallLease):
            self.record(CallResult(CallStatus.ERROR, "cancelled", CALLER_GONE_MESSAGE, lease=decision))

    def _maintain_active_calls(self) -> None:
        if not self._pending_results and not self.active_calls:
            return
        try:
            database.prepare_connection()
            self._write_pending_results()
            self.active_calls.renew_leases()
        except Exception:
            # The next tick tries again. Until then nothing is decided that could not be recorded.
            log.warning("calls in flight could not be looked after", exc_info=True)
            with suppress(Exception):
                connection.close()

    def _write_pending_results(self) -> None:
        """Retry results. One that the database rejects is dropped; its call gets a row when its lease expires."""
        while self._pending_results:
            result = self._pending_results[0]
            try:
                result_writer.write_results_again([result])
            except DB_ERRORS:
                raise
            except Exception:
                result_writer.check_writable()
                log.exception("a call's row is refused as it is", extra={"call_id": str(result.call_id)})
            self.active_calls.remove(result.held_lease.call_id)
            self._pending_results.pop(0)


batch_worker = BatchWorker()
os.register_at_fork(after_in_child=batch_worker.restart)
