"""Runs one tool call: decision, upstream call, log row, result."""

import asyncio
import logging
import time
from dataclasses import replace
from functools import partial
from typing import Any

from common.executors import run_in_thread
from mcp.gateway import arguments, call_telemetry, public_messages, tool_list, types, upstream_call
from mcp.gateway.batch.active_calls import CANCEL_REASON
from mcp.gateway.batch.worker import CALLER_GONE_MESSAGE, batch_worker
from mcp.gateway.types import CallLease, CallRefusal, CallRequest, CallResult, SchemasNeeded
from mcp.servers import status_changes
from mcp.servers.targets import target_cache
from nhi import hooks
from nhi.choices import CallStatus
from nhi.credentials.tokens import ParsedCredentialToken
from nhi.decisions import reasons
from nhi.hooks import WaitingCall

log = logging.getLogger(__name__)
list_tools = tool_list.list_tools

UNEXPECTED_MESSAGE = "Something went wrong here. Name the request id when you report it."
ACCESS_ENDED_MESSAGE = "The caller's access ended while the call was under way."
CANCELLED_MESSAGE = "The caller cancelled the call. It may have had an effect."
NOT_FOR_CALLS_MESSAGE = "This token is not one that may call tools."
LOST_MESSAGE = "This call had been given up as lost."


async def call_tool(request: CallRequest) -> CallResult:
    started_at = time.monotonic()
    if isinstance(request.token, ParsedCredentialToken) and request.token.prefix == "usr":
        call_telemetry.count_call("unauthenticated", reasons.MALFORMED, time.monotonic() - started_at)
        return CallResult("unauthenticated", reasons.MALFORMED, NOT_FOR_CALLS_MESSAGE)
    batch_worker.require_capacity(request.token, request.source)
    # Hash the arguments here, after the check of the capacity and before the worker's thread, which serves all calls.
    _ = request.args_hash
    decision = await _decide(request)
    if isinstance(decision, CallLease):
        return await _execute(request, decision, started_at)
    result = _build_refused_result(decision, started_at)
    call_telemetry.count_call(result.status, result.reason, time.monotonic() - started_at)
    if not decision.unknown_bearer:
        call_telemetry.log_call(request, result, time.monotonic() - started_at)
    if decision.waiting is not None:
        await run_in_thread(partial(_notify_task, decision.waiting))
    return result


async def _decide(request: CallRequest) -> CallLease | CallRefusal:
    """Return the worker's decision. When it needs more schemas, check the arguments against them and ask it again."""
    checked = arguments.check_remembered_schemas(request)
    for _ in range(types.MAX_SCHEMA_ROUNDS):
        decision = await batch_worker.decide_for_caller(request, checked)
        if not isinstance(decision, SchemasNeeded):
            return decision
        checked = {**checked, **arguments.check_schemas(request, decision)}
    raise types.GatewayOverloaded("Access changes too fast to decide.", retry_after=1)


def _build_refused_result(refusal: CallRefusal, started_at: float) -> CallResult:
    status: str = reasons.outcome_of(refusal.reason).log_status
    if refusal.unknown_bearer:
        status = "unauthenticated"
    elif refusal.reason == "approval_required":
        status = "pending_approval"
    duration_ms = (time.monotonic() - started_at) * 1000
    return CallResult(status, refusal.reason, refusal.message, refusal=refusal, duration_ms=duration_ms)


async def _execute(request: CallRequest, lease: CallLease, started_at: float) -> CallResult:
    """Make a call that has a lease. Every outcome is written as a row."""
    sent_at = time.monotonic()
    with batch_worker.active_calls.cancel_when_stopped(lease.call_id) as cancel_signal:
        try:
            result = await _call_upstream(request, lease)
        except asyncio.CancelledError:
            if not cancel_signal.reason:
                result = CallResult(CallStatus.ERROR, "cancelled", CALLER_GONE_MESSAGE, lease=lease)
                await _finish_call(request, result, started_at, sent_at)
                raise
            asyncio.current_task().uncancel()  # type: ignore[union-attr]  # every loop runs its coroutines in a task
            message = CANCELLED_MESSAGE if cancel_signal.reason == CANCEL_REASON else ACCESS_ENDED_MESSAGE
            result = CallResult(CallStatus.ERROR, cancel_signal.reason, message, lease=lease)
        except Exception:
            # An error of Gatehouse itself; the call still gets its row.
            result = CallResult(CallStatus.ERROR, "unexpected", UNEXPECTED_MESSAGE, lease=lease)
            await _finish_call(request, result, started_at, sent_at)
            raise
    return await _finish_call(request, result, started_at, sent_at)


async def _call_upstream(request: CallRequest, lease: CallLease) -> CallResult:
    server = target_cache.find(lease.server_id, lease.revision, lease.era)
    if server is None:
        server = await run_in_thread(partial(target_cache.load, lease.server_id))
    if server.target.revision != lease.revision:
        # The configuration that was decided upon is not the current one.
        message = "The server was changed while the call was decided. Nothing was sent; send it again."
        return CallResult(CallStatus.ERROR, "upstream", message, lease=lease)
    input_schema = arguments.find_schema(lease.definition_id)
    return await upstream_call.call_tool(lease, server, request, input_schema=input_schema)


async def _finish_call(request: CallRequest, result: CallResult, started_at: float, sent_at: float) -> CallResult:
    """Write the log row, then return the result for the caller."""
    now = time.monotonic()
    details: dict[str, Any] = {
        "decide_ms": round((sent_at - started_at) * 1000, 3),
        "upstream_ms": round((now - sent_at) * 1000, 3),
    }
    if result.operator_message is not None:
        message = public_messages.add_request_id(result.message, request.request_id)
        result = replace(result, message=message)
        details[public_messages.PUBLIC_MESSAGE] = message
    result = replace(result, duration_ms=(now - started_at) * 1000, details=details)
    recorded = await batch_worker.record_for_caller(result)
    if result.updates_service:
        await status_changes.update_after_call(result.held_lease.server_id, result.service_verdict, result.log_message)
    if not recorded:
        result = CallResult(CallStatus.ERROR, "lost", LOST_MESSAGE, lease=result.lease)
    seconds = time.monotonic() - started_at
    call_telemetry.count_call(result.status, result.reason, seconds)
    call_telemetry.log_call(request, result, seconds)
    # Entry points show results to callers.
    return replace(result, duration_ms=seconds * 1000, operator_message=None)


def _notify_task(waiting: WaitingCall) -> None:
    """Notify the task of a waiting call. A failure is only logged: the refusal is already recorded."""
    try:
        hooks.notify_call_waiting(waiting)
    except Exception:
        log.exception("a task was not told that a call of it waits", extra={"task_id": str(waiting.task_id)})
