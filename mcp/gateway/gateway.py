"""Runs one tool call: decision, upstream call, log row, result. Every entry point calls it."""

import asyncio
import hashlib
import logging
import time
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID

from common import canonical_json
from common.ids import uuid7
from common.threads import run_in_thread
from mcp.client.transports import OnProgress
from mcp.gateway import arguments, call_log, call_numbers, leases, public_messages, tool_list, types, upstream_call
from mcp.gateway.batch.worker import batch_worker
from mcp.gateway.types import CallContext, CallLease, CallRefusal, CallRequest, SchemasNeeded
from mcp.gateway.upstream_call import UpstreamResult
from mcp.servers.targets import target_cache
from nhi import hooks
from nhi.authorization import oauth
from nhi.choices import CallStatus
from nhi.credentials import tokens
from nhi.hooks import WaitingCall

__all__ = ["CallContext", "CallResult", "IncomingCall", "call_tool", "list_tools"]

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
    context: CallContext = field(default_factory=CallContext)
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
    error_code: str = ""
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


async def call_tool(ask: IncomingCall) -> CallResult:
    began = time.monotonic()
    shown = tokens.parse(ask.bearer)
    if shown is None or (isinstance(shown, tokens.ParsedCredentialToken) and shown.prefix == "usr"):
        call_numbers.count_call("unauthenticated", "malformed", time.monotonic() - began)
        return CallResult(None, "unauthenticated", "malformed", MALFORMED_BEARER_MESSAGE)
    batch_worker.require_capacity(shown, ask.source)
    wish = _build_request(ask, shown)
    answer = await _decide(wish)
    if isinstance(answer, CallRefusal):
        outcome = _build_refusal_result(answer, began)
        call_numbers.count_call(outcome.status, outcome.reason, time.monotonic() - began)
        if not answer.unknown_bearer:
            _log_call(wish, outcome, began)
        if answer.waiting is not None:
            await run_in_thread(partial(_notify_task, answer.waiting))
        return outcome
    return await _execute(ask, wish, answer, began)


async def _decide(wish: CallRequest) -> CallLease | CallRefusal:
    """Return the worker's decision. When it needs more schemas, check the arguments against them and ask it again."""
    caller = _caller_key(wish)
    checked = arguments.check_remembered_schemas(caller, wish.server, wish.tool, wish.arguments)
    for _ in range(types.MAX_SCHEMA_ROUNDS):
        answer = await leases.await_decision(batch_worker.decide(replace(wish, checked=checked)))
        if not isinstance(answer, SchemasNeeded):
            return answer
        checked = {**checked, **arguments.check_schemas(caller, wish.server, wish.tool, wish.arguments, answer)}
    raise types.GatewayOverloaded("Access changes too fast to decide.", retry_after=1)


async def _execute(ask: IncomingCall, wish: CallRequest, ticket: CallLease, began: float) -> CallResult:
    """Make a call that has a lease. Every outcome is written as a row."""
    stop = leases.CancelSignal()
    batch_worker.active_calls.on_stop(ticket.call_id, stop)
    sent = time.monotonic()
    try:
        answered = await _call_upstream(ask, ticket)
    except asyncio.CancelledError:
        if not stop.reason:
            await _write_result(
                wish, ticket, leases.build_stopped_result("cancelled", leases.CALLER_GONE_MESSAGE), began, sent
            )
            raise
        asyncio.current_task().uncancel()  # type: ignore[union-attr]  # every loop runs its coroutines in a task
        answered = leases.build_stopped_result(stop.reason, ACCESS_ENDED_MESSAGE, "Unauthorized")
    except Exception:
        # An error of Gatehouse itself; the call still gets its row.
        unexpected = UpstreamResult(
            CallStatus.ERROR, None, "unexpected", "InternalError", UNEXPECTED_MESSAGE, service_verdict=""
        )
        await _write_result(wish, ticket, unexpected, began, sent)
        raise
    finally:
        stop.close()
    return await _write_result(wish, ticket, answered, began, sent)


async def _call_upstream(ask: IncomingCall, ticket: CallLease) -> UpstreamResult:
    reach = target_cache.find(ticket.server_id, ticket.revision, ticket.era)
    if reach is None:
        reach = await run_in_thread(partial(target_cache.load, ticket.server_id))
    if reach.target.revision != ticket.revision:
        # The configuration that was decided upon is not the current one.
        said = "The server was changed while the call was decided. Nothing was sent; send it again."
        return UpstreamResult(CallStatus.ERROR, None, "upstream", "ExecutionFailed", said, service_verdict="")
    return await upstream_call.call_tool(
        ticket,
        reach,
        ask.arguments,
        meta={"gatehouse/request_id": str(ask.request_id), "gatehouse/call_id": str(ticket.call_id)},
        on_progress=ask.on_progress,
        input_schema=arguments.find_schema(ticket.definition_id),
    )


async def _write_result(
    wish: CallRequest, ticket: CallLease, answered: UpstreamResult, began: float, sent: float
) -> CallResult:
    """Write the log row, then build the result for the caller."""
    now = time.monotonic()
    times = {"decide_ms": round((sent - began) * 1000, 3), "upstream_ms": round((now - sent) * 1000, 3)}
    public = public_messages.add_request_id(answered.public_message, wish.request_id) if answered.public_message else ""
    details = {**times, public_messages.PUBLIC_MESSAGE: public} if public else times
    outcome = leases.build_outcome(ticket, answered, duration=(now - began) * 1000, details=details)
    recorded = await leases.write_outcome(outcome)
    if outcome.updates_service:
        await leases.update_server_status(outcome)
    if not recorded:
        answered = UpstreamResult(CallStatus.ERROR, None, "lost", "Timeout", "This call had been given up as lost.")
        public = ""
    left = ticket.quota
    told = CallResult(
        call_id=ticket.call_id,
        status=answered.status,
        reason=answered.reason,
        message=public or answered.message,
        error_code=answered.error_code,
        result=answered.result,
        latency_ms=round((time.monotonic() - began) * 1000, 3),
        remaining=left.remaining if left else None,
        reset=left.reset if left else None,
        required_capabilities=answered.required_capabilities,
    )
    call_numbers.count_call(told.status, told.reason, time.monotonic() - began)
    _log_call(wish, replace(told, message=answered.message), began, redacted=answered.redacted)
    return told


def _build_refusal_result(refusal: CallRefusal, began: float) -> CallResult:
    status = refusal.status
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
        error_code=refusal.error_code,
        tool_is_visible=refusal.tool_is_visible,
        retry_after=refusal.retry_after,
        latency_ms=round((time.monotonic() - began) * 1000, 3),
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


def _build_request(ask: IncomingCall, shown: tokens.ParsedBearerToken) -> CallRequest:
    server, tool = (ask.server, ask.tool) if ask.server else split_tool_name(ask.tool)
    return CallRequest(
        call_id=uuid7(),
        token=shown,
        audience=oauth.rest_resource() if ask.entry_point == "rest" else oauth.mcp_resource(),
        server=server,
        tool=tool,
        arguments=ask.arguments,
        args_hash=hashlib.sha256(canonical_json.encode(ask.arguments)).hexdigest(),
        request_id=ask.request_id,
        source=ask.source,
        context=ask.context,
        entry_point=ask.entry_point,
        problem=ask.problem,
        problem_fields=ask.problem_fields,
    )


def split_tool_name(name: str) -> tuple[str, str]:
    """Split a qualified name at its first `__`. Without `__` the whole name is returned as the server, with no tool."""
    server, _, tool = name.partition("__")
    return server, tool


def _caller_key(wish: CallRequest) -> str:
    shown = wish.token
    return shown.public_id if isinstance(shown, tokens.ParsedCredentialToken) else str(shown.credential_id)


def _log_call(wish: CallRequest, outcome: CallResult, began: float, *, redacted: bool = False) -> None:
    call_log.log_call(
        wish,
        call_id=outcome.call_id,
        status=outcome.status,
        reason=outcome.reason,
        message=outcome.message,
        result=outcome.result,
        seconds=time.monotonic() - began,
        redacted=redacted,
    )
