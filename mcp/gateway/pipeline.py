"""Runs one tool call: decision, upstream call, log row, result."""

import asyncio
import hashlib
import logging
import os
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID

from django.db import InterfaceError, OperationalError

from common import canonical_json
from common.errors import RecordUnavailable
from common.executors import run_in_thread
from common.ids import uuid7
from mcp.client.transports import OnProgress
from mcp.gateway import arguments, call_log, public_messages, tool_list, types, upstream_call
from mcp.gateway.batch import result_writer
from mcp.gateway.batch.worker import batch_worker
from mcp.gateway.types import CallerContext, CallLease, CallRefusal, CallRequest, SchemasNeeded
from mcp.gateway.upstream_call import UpstreamResult
from mcp.servers.targets import target_cache
from nhi import hooks
from nhi.authorization import oauth
from nhi.choices import CallStatus
from nhi.credentials import tokens
from nhi.decisions import reasons
from nhi.hooks import WaitingCall

__all__ = ["CallResult", "CallerContext", "IncomingCall", "call_tool", "list_tools"]

log = logging.getLogger(__name__)
list_tools = tool_list.list_tools

UNEXPECTED_MESSAGE = "Something went wrong here. Name the request id when you report it."
ACCESS_ENDED_MESSAGE = "The caller's access ended while the call was under way."
MALFORMED_BEARER_MESSAGE = "This token is not one that may call tools."


@dataclass(frozen=True)
class IncomingCall:
    """A tool call as an entry point parsed it."""

    bearer: str = field(repr=False)
    #: The server's name; empty when `tool` is the qualified name `<server>__<tool>`.
    server: str
    tool: str
    arguments: dict[str, Any] = field(repr=False)
    request_id: UUID
    source: str
    entry_point: str = "rest"
    context: CallerContext = field(default_factory=CallerContext)
    on_progress: OnProgress | None = field(default=None, repr=False)
    protocol_version: str = ""
    #: Why the body could not be parsed. Whether the caller may know the tool is still decided.
    problem: str = ""
    problem_fields: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class CallResult:
    """The result of a tool call, which the entry point renders."""

    call_id: UUID | None
    status: str
    reason: str = ""
    message: str = ""
    #: False when the caller never had a grant: the answer is the same as for a tool that does not exist.
    tool_is_visible: bool = True
    result: dict[str, Any] | None = None
    retry_after: int | None = None
    latency_ms: float = 0.0
    expires_at: datetime | None = None
    #: For a waiting call: no holder of a deciding role may decide about it. The message says so.
    needs_superuser: bool = False
    remaining: int | None = None
    reset: int | None = None
    fields: tuple[tuple[str, str], ...] = ()
    #: Client capabilities that the server requires to run the tool.
    required_capabilities: tuple[str, ...] = ()
    #: Scope of the breaker that refused the call; empty for every other reason.
    breaker_scope: str = ""
    #: False for a refusal that was only counted and has no row. `call_id` is then None, or the id of the waiting call.
    recorded: bool = True

    @property
    def error_code(self) -> str:
        return reasons.kind_of(self.reason).error_code if self.reason else ""


async def call_tool(incoming_call: IncomingCall) -> CallResult:
    started_at = time.monotonic()
    token = tokens.parse(incoming_call.bearer)
    if token is None or (isinstance(token, tokens.ParsedCredentialToken) and token.prefix == "usr"):
        call_log.count_call("unauthenticated", reasons.MALFORMED, time.monotonic() - started_at)
        return CallResult(None, "unauthenticated", reasons.MALFORMED, MALFORMED_BEARER_MESSAGE)
    batch_worker.require_capacity(token, incoming_call.source)
    request = _build_request(incoming_call, token)
    decision = await _decide(request)
    if isinstance(decision, CallRefusal):
        result = _build_refusal_result(decision, started_at)
        call_log.count_call(result.status, result.reason, time.monotonic() - started_at)
        if not decision.unknown_bearer:
            _log_call(request, result, started_at)
        if decision.waiting is not None:
            await run_in_thread(partial(_notify_task, decision.waiting))
        return result
    return await _execute(incoming_call, request, decision, started_at)


async def _decide(request: CallRequest) -> CallLease | CallRefusal:
    """Return the worker's decision. When it needs more schemas, check the arguments against them and ask it again."""
    caller = _caller_key(request)
    checked = arguments.check_remembered_schemas(caller, request.server, request.tool, request.arguments)
    for _ in range(types.MAX_SCHEMA_ROUNDS):
        decision = await await_decision(batch_worker.decide(replace(request, checked=checked)))
        if not isinstance(decision, SchemasNeeded):
            return decision
        checked = {
            **checked,
            **arguments.check_schemas(caller, request.server, request.tool, request.arguments, decision),
        }
    raise types.GatewayOverloaded("Access changes too fast to decide.", retry_after=1)


async def _execute(
    incoming_call: IncomingCall, request: CallRequest, lease: CallLease, started_at: float
) -> CallResult:
    """Make a call that has a lease. Every outcome is written as a row."""
    cancel_signal = CancelSignal()
    batch_worker.active_calls.on_stop(lease.call_id, cancel_signal)
    sent_at = time.monotonic()
    try:
        upstream_result = await _call_upstream(incoming_call, lease)
    except asyncio.CancelledError:
        if not cancel_signal.reason:
            await _write_result(
                request,
                lease,
                build_stopped_result("cancelled", CALLER_GONE_MESSAGE),
                started_at,
                sent_at,
            )
            raise
        asyncio.current_task().uncancel()  # type: ignore[union-attr]  # every loop runs its coroutines in a task
        upstream_result = build_stopped_result(cancel_signal.reason, ACCESS_ENDED_MESSAGE)
    except Exception:
        # An error of Gatehouse itself; the call still gets its row.
        failed_result = UpstreamResult(CallStatus.ERROR, None, "unexpected", UNEXPECTED_MESSAGE, service_verdict="")
        await _write_result(request, lease, failed_result, started_at, sent_at)
        raise
    finally:
        cancel_signal.close()
    return await _write_result(request, lease, upstream_result, started_at, sent_at)


async def _call_upstream(incoming_call: IncomingCall, lease: CallLease) -> UpstreamResult:
    server = target_cache.find(lease.server_id, lease.revision, lease.era)
    if server is None:
        server = await run_in_thread(partial(target_cache.load, lease.server_id))
    if server.target.revision != lease.revision:
        # The configuration that was decided upon is not the current one.
        message = "The server was changed while the call was decided. Nothing was sent; send it again."
        return UpstreamResult(CallStatus.ERROR, None, "upstream", message, service_verdict="")
    return await upstream_call.call_tool(
        lease,
        server,
        incoming_call.arguments,
        meta={"gatehouse/request_id": str(incoming_call.request_id), "gatehouse/call_id": str(lease.call_id)},
        on_progress=incoming_call.on_progress,
        input_schema=arguments.find_schema(lease.definition_id),
    )


async def _write_result(
    request: CallRequest, lease: CallLease, upstream_result: UpstreamResult, started_at: float, sent_at: float
) -> CallResult:
    """Write the log row, then build the result for the caller."""
    now = time.monotonic()
    times = {"decide_ms": round((sent_at - started_at) * 1000, 3), "upstream_ms": round((now - sent_at) * 1000, 3)}
    public_message = (
        public_messages.add_request_id(upstream_result.public_message, request.request_id)
        if upstream_result.public_message
        else ""
    )
    details = {**times, public_messages.PUBLIC_MESSAGE: public_message} if public_message else times
    outcome = build_outcome(lease, upstream_result, duration=(now - started_at) * 1000, details=details)
    recorded = await write_outcome(outcome)
    if outcome.updates_service:
        await update_server_status(outcome)
    if not recorded:
        upstream_result = UpstreamResult(CallStatus.ERROR, None, "lost", "This call had been given up as lost.")
        public_message = ""
    quota = lease.quota
    result = CallResult(
        call_id=lease.call_id,
        status=upstream_result.status,
        reason=upstream_result.reason,
        message=public_message or upstream_result.message,
        result=upstream_result.result,
        latency_ms=round((time.monotonic() - started_at) * 1000, 3),
        remaining=quota.remaining if quota else None,
        reset=quota.reset if quota else None,
        required_capabilities=upstream_result.required_capabilities,
    )
    call_log.count_call(result.status, result.reason, time.monotonic() - started_at)
    _log_call(request, replace(result, message=upstream_result.message), started_at, redacted=upstream_result.redacted)
    return result


def _build_refusal_result(refusal: CallRefusal, started_at: float) -> CallResult:
    status: str = reasons.kind_of(refusal.reason).log_status
    if refusal.unknown_bearer:
        status = "unauthenticated"
    elif refusal.reason == "approval_required":
        status = "pending_approval"
    return CallResult(
        call_id=refusal.call_id if refusal.recorded else refusal.approval_id,
        recorded=refusal.recorded,
        status=status,
        reason=refusal.reason,
        message=refusal.message,
        tool_is_visible=refusal.tool_is_visible,
        retry_after=refusal.retry_after,
        latency_ms=round((time.monotonic() - started_at) * 1000, 3),
        expires_at=refusal.expires_at,
        needs_superuser=refusal.needs_superuser,
        remaining=refusal.quota.remaining if refusal.quota else None,
        reset=refusal.quota.reset if refusal.quota else None,
        fields=refusal.fields,
        breaker_scope=refusal.breaker_scope,
    )


def _notify_task(waiting: WaitingCall) -> None:
    """Notify the task of a waiting call. A failure is only logged: the refusal is already recorded."""
    try:
        hooks.notify_call_waiting(waiting)
    except Exception:
        log.exception("a task was not told that a call of it waits", extra={"task_id": str(waiting.task_id)})


def _build_request(incoming_call: IncomingCall, token: tokens.ParsedBearerToken) -> CallRequest:
    server, tool = (
        (incoming_call.server, incoming_call.tool) if incoming_call.server else split_tool_name(incoming_call.tool)
    )
    return CallRequest(
        call_id=uuid7(),
        token=token,
        audience=oauth.rest_resource() if incoming_call.entry_point == "rest" else oauth.mcp_resource(),
        server=server,
        tool=tool,
        arguments=incoming_call.arguments,
        args_hash=hashlib.sha256(canonical_json.encode(incoming_call.arguments)).hexdigest(),
        request_id=incoming_call.request_id,
        source=incoming_call.source,
        context=incoming_call.context,
        entry_point=incoming_call.entry_point,
        problem=incoming_call.problem,
        problem_fields=incoming_call.problem_fields,
    )


def split_tool_name(name: str) -> tuple[str, str]:
    """Split a qualified name at its first `__`. Without `__` the whole name is returned as the server, with no tool."""
    server, _, tool = name.partition("__")
    return server, tool


def _caller_key(request: CallRequest) -> str:
    token = request.token
    return token.public_id if isinstance(token, tokens.ParsedCredentialToken) else str(token.credential_id)


def _log_call(request: CallRequest, result: CallResult, started_at: float, *, redacted: bool = False) -> None:
    call_log.log_call(
        request,
        call_id=result.call_id,
        status=result.status,
        reason=result.reason,
        message=result.message,
        result=result.result,
        seconds=time.monotonic() - started_at,
        redacted=redacted,
    )


CALLER_GONE_MESSAGE = "The caller went away, or the process that made the call was stopped."
#: A hanging database can block the worker for longer than its statement timeouts. Callers get an error after this.
WORKER_TIMEOUT_SECONDS = 2.5
STATUS_UPDATE_SECONDS = 0.5


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
        error_message=upstream_result.message,
        redaction_applied=upstream_result.redacted,
        service_verdict=upstream_result.service_verdict,
        fault_kind=upstream_result.fault_kind,
        details=details or {},
    )


def build_stopped_result(reason: str, message: str) -> UpstreamResult:
    return UpstreamResult(CallStatus.ERROR, None, reason, message, service_verdict="")
