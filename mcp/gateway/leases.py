"""From lease to row: who leaves in between, and who is told to stop, leaves a row behind all the same."""

import asyncio
import logging
import os
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any

from django.db import InterfaceError, OperationalError

from common.errors import GatehouseError, RecordUnavailable
from common.threads import run_in_thread
from mcp.gateway import types
from mcp.gateway.batch import result_writer
from mcp.gateway.batch.worker import desk
from mcp.gateway.types import Ticket
from mcp.gateway.upstream_call import Answered
from nhi.choices import CallStatus

GONE = "The caller went away, or the process that made the call was stopped."
#: A database that hangs holds up the desk, for longer than any timeout of its own; who waits is told in time.
PATIENCE = 2.5
TELLING = 0.5

log = logging.getLogger(__name__)


class Stopping(GatehouseError):
    """The process that made the call ends; the call's row says that it was cancelled."""

    code = "stopping"

    def __init__(self) -> None:
        super().__init__("Gatehouse stopped here before the call had ended. It may have had an effect.")


async def heard(future: "Future[types.Answer]") -> types.Answer:
    """The desk's answer. Whoever leaves before it comes leaves no lease behind: its call is logged as given up."""
    try:
        async with asyncio.timeout(PATIENCE):
            return await asyncio.wrap_future(future)
    except TimeoutError as error:
        future.add_done_callback(_never_made)
        raise types.DatabaseAway from error
    except asyncio.CancelledError:
        future.add_done_callback(_never_made)
        raise


async def recorded(outcome: types.Outcome) -> bool:
    """Whether the row is this outcome's. Shielded: who went away leaves a row behind, too."""
    try:
        async with asyncio.timeout(PATIENCE):
            return await asyncio.shield(asyncio.wrap_future(desk.record(outcome)))
    except TimeoutError as error:
        raise RecordUnavailable from error


async def told(outcome: types.Outcome) -> None:
    """Say of the server how it is doing. Who is answered waits for that, but not for whoever holds the server's row."""
    telling = asyncio.ensure_future(run_in_thread(partial(_tell, outcome), by=_tellers.threads))
    await asyncio.wait({telling}, timeout=TELLING)


class _Tellers:
    """Few, and for this alone: where they wait for a row, nothing else of the process waits with them."""

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """A fork inherits no thread."""
        self.threads = ThreadPoolExecutor(2, "tellers")


_tellers = _Tellers()
os.register_at_fork(after_in_child=_tellers.restart)


def _tell(outcome: types.Outcome) -> None:
    try:
        result_writer.tell_server(outcome)
    except (OperationalError, InterfaceError, RecordUnavailable) as error:
        # The next call says it again; this one has its row.
        log.warning("a server's status could not be moved", extra={"why": str(error)})


def _never_made(future: "Future[types.Answer]") -> None:
    if future.cancelled() or future.exception() is not None:
        return
    ticket = future.result()
    if isinstance(ticket, Ticket):
        desk.record(outcome_of(ticket, given_up("cancelled", GONE), duration=0.0))


class Stop:
    """The desk's word that a call must end, which counts only while the call is being made."""

    def __init__(self) -> None:
        self.reason = ""
        self._task = asyncio.current_task()
        self._loop = asyncio.get_running_loop()
        self._listening = True

    def __call__(self, reason: str) -> None:
        self._loop.call_soon_threadsafe(self._hear, reason)

    def _hear(self, reason: str) -> None:
        if self._listening and self._task is not None:
            self.reason = reason
            self._task.cancel()

    def listen_no_more(self) -> None:
        self._listening = False


def outcome_of(
    ticket: Ticket, answered: Answered, *, duration: float, details: dict[str, Any] | None = None
) -> types.Outcome:
    return types.Outcome(
        ticket=ticket,
        status=answered.status,
        duration=duration,
        reason=answered.reason,
        error_code=answered.error_code,
        error_message=answered.message,
        redaction_applied=answered.redacted,
        service=answered.service,
        fault_kind=answered.fault_kind,
        details=details or {},
    )


def given_up(reason: str, message: str, error_code: str = "ExecutionFailed") -> Answered:
    return Answered(CallStatus.ERROR, None, reason, error_code, message, service="")
