"""Waits for decisions and writes outcomes, so that a cancelled or stopped call gets its row as well."""

import asyncio
import logging
import os
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any

from django.db import InterfaceError, OperationalError

from common.errors import RecordUnavailable
from common.threads import run_in_thread
from mcp.gateway import types
from mcp.gateway.batch import result_writer
from mcp.gateway.batch.worker import batch_worker
from mcp.gateway.types import CallLease
from mcp.gateway.upstream_call import UpstreamResult
from nhi.choices import CallStatus

CALLER_GONE_MESSAGE = "The caller went away, or the process that made the call was stopped."
#: A hanging database can block the worker for longer than its statement timeouts. Callers get an error after this.
WORKER_TIMEOUT_SECONDS = 2.5
STATUS_UPDATE_SECONDS = 0.5

log = logging.getLogger(__name__)


async def await_decision(future: "Future[types.CallDecision]") -> types.CallDecision:
    """Wait for the worker's decision. If the caller leaves first, a lease written later is ended as cancelled."""
    try:
        async with asyncio.timeout(WORKER_TIMEOUT_SECONDS):
            return await asyncio.wrap_future(future)
    except TimeoutError as error:
        future.add_done_callback(_record_abandoned_call)
        raise types.DatabaseUnavailable from error
    except asyncio.CancelledError:
        future.add_done_callback(_record_abandoned_call)
        raise


async def write_outcome(outcome: types.CallOutcome) -> bool:
    """Write the outcome; return whether it is the call's row. Shielded, so that a cancelled caller gets its row too."""
    try:
        async with asyncio.timeout(WORKER_TIMEOUT_SECONDS):
            return await asyncio.shield(asyncio.wrap_future(batch_worker.record(outcome)))
    except TimeoutError as error:
        raise RecordUnavailable from error


async def update_server_status(outcome: types.CallOutcome) -> None:
    """Update the server's status. Callers wait for this only briefly: another process may hold the row's lock."""
    update = asyncio.ensure_future(
        run_in_thread(partial(_update_status_or_warn, outcome), executor=_status_executor.executor)
    )
    await asyncio.wait({update}, timeout=STATUS_UPDATE_SECONDS)


class _StatusExecutor:
    """A small thread pool for status updates only, so that a locked server row blocks no other work of the process."""

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Create a new pool: a forked process inherits no threads."""
        self.executor = ThreadPoolExecutor(2, "tellers")


_status_executor = _StatusExecutor()
os.register_at_fork(after_in_child=_status_executor.restart)


def _update_status_or_warn(outcome: types.CallOutcome) -> None:
    try:
        result_writer.update_server_status(outcome)
    except (OperationalError, InterfaceError, RecordUnavailable) as error:
        # The next call updates the status again, and this call has its row.
        log.warning("a server's status could not be moved", extra={"why": str(error)})


def _record_abandoned_call(future: "Future[types.CallDecision]") -> None:
    if future.cancelled() or future.exception() is not None:
        return
    decision = future.result()
    if isinstance(decision, CallLease):
        batch_worker.record(
            build_outcome(decision, build_stopped_result("cancelled", CALLER_GONE_MESSAGE), duration=0.0)
        )


class CancelSignal:
    """Cancels the task of a call when the worker finds that it must stop. Has no effect once it is closed."""

    def __init__(self) -> None:
        self.reason = ""
        self._task = asyncio.current_task()
        self._loop = asyncio.get_running_loop()
        self._is_active = True

    def __call__(self, reason: str) -> None:
        self._loop.call_soon_threadsafe(self._cancel, reason)

    def _cancel(self, reason: str) -> None:
        if self._is_active and self._task is not None:
            self.reason = reason
            self._task.cancel()

    def close(self) -> None:
        self._is_active = False


def build_outcome(
    lease: CallLease, upstream_result: UpstreamResult, *, duration: float, details: dict[str, Any] | None = None
) -> types.CallOutcome:
    return types.CallOutcome(
        lease=lease,
        status=upstream_result.status,
        duration=duration,
        reason=upstream_result.reason,
        error_code=upstream_result.error_code,
        error_message=upstream_result.message,
        redaction_applied=upstream_result.redacted,
        service_verdict=upstream_result.service_verdict,
        fault_kind=upstream_result.fault_kind,
        details=details or {},
    )


def build_stopped_result(reason: str, message: str, error_code: str = "ExecutionFailed") -> UpstreamResult:
    return UpstreamResult(CallStatus.ERROR, None, reason, error_code, message, service_verdict="")
