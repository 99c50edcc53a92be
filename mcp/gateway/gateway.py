"""The way of one tool call: decided, made, recorded, answered. Every door calls this."""

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
from mcp.gateway.batch.worker import desk
from mcp.gateway.types import Circumstances as CallContext
from mcp.gateway.types import Refusal, Ticket, Unchecked, Wish
from mcp.gateway.upstream_call import Answered
from mcp.servers.targets import kept
from nhi import hooks
from nhi.authorization import oauth
from nhi.choices import CallStatus
from nhi.credentials import tokens
from nhi.hooks import WaitingCall

__all__ = ["Ask", "CallContext", "Outcome", "call_tool", "list_tools"]

log = logging.getLogger(__name__)
list_tools = tool_list.of_bearer

UNEXPECTED = "Something went wrong here. Name the request id when you report it."
ENDED = "The caller's access ended while the call was under way."
STRANGER = "This token is not one that may call tools."


@dataclass(frozen=True)
class Ask:
    """A call as a door has read it."""

    bearer: str = field(repr=False)
    #: The server's name; empty when the tool's name says it as `<server>__<tool>`.
    server: str
    tool: str
    arguments: dict[str, Any] = field(repr=False)
    request_id: UUID
    source: str
    door: str = "rest"
    context: CallContext = field(default_factory=CallContext)
    on_progress: OnProgress | None = field(default=None, repr=False)
    protocol_version: str = ""
    #: Why its body could not be read; whether the tool may be known of is decided all the same.
    problem: str = ""
    problem_fields: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Outcome:
    """What a door answers."""

    call_id: UUID | None
    status: str
    reason: str = ""
    message: str = ""
    error_code: str = ""
    #: False: this caller never held it, and is told what a stranger to the tool is told.
    held: bool = True
    result: dict[str, Any] | None = None
    retry_after: int | None = None
    latency_ms: float = 0.0
    expires_at: datetime | None = None
    #: Of a waiting call: nobody who holds the role may decide about it, as the message says.
    needs_superuser: bool = False
    remaining: int | None = None
    reset: int | None = None
    fields: tuple[tuple[str, str], ...] = ()
    #: Capabilities of the client without which the server does not run the tool.
    required: tuple[str, ...] = ()
    #: Whose calls the breaker stops that refused this one; empty for every other reason.
    breaker_scope: str = ""
    #: False for a refusal that was counted and has no row. Its `call_id` is then null, or the call that waits.
    recorded: bool = True


async def call_tool(ask: Ask) -> Outcome:
    began = time.monotonic()
    shown = tokens.parse(ask.bearer)
    if shown is None or (isinstance(shown, tokens.ParsedCredentialToken) and shown.prefix == "usr"):
        call_numbers.count("unauthenticated", "malformed", time.monotonic() - began)
        return Outcome(None, "unauthenticated", "malformed", STRANGER)
    desk.require_room(shown, ask.source)
    wish = _wish(ask, shown)
    answer = await _decided(wish)
    if isinstance(answer, Refusal):
        outcome = _refused(answer, began)
        call_numbers.count(outcome.status, outcome.reason, time.monotonic() - began)
        if not answer.unknown_bearer:
            _tell(wish, outcome, began)
        if answer.waits is not None:
            await run_in_thread(partial(_tell_task, answer.waits))
        return outcome
    return await _made(ask, wish, answer, began)


async def _decided(wish: Wish) -> Ticket | Refusal:
    """What the desk says; arguments that it finds unchecked are checked here, and brought again."""
    caller = _caller(wish)
    checked = arguments.check_before(caller, wish.server, wish.tool, wish.arguments)
    for _ in range(types.MOST_QUESTIONS):
        answer = await leases.heard(desk.decide(replace(wish, checked=checked)))
        if not isinstance(answer, Unchecked):
            return answer
        checked = {**checked, **arguments.check(caller, wish.server, wish.tool, wish.arguments, answer)}
    raise types.Overloaded("Access changes too fast to decide.", retry_after=1)


async def _made(ask: Ask, wish: Wish, ticket: Ticket, began: float) -> Outcome:
    """From the lease on, whatever happens becomes a row."""
    stop = leases.Stop()
    desk.flights.on_stop(ticket.call_id, stop)
    sent = time.monotonic()
    try:
        answered = await _call(ask, ticket)
    except asyncio.CancelledError:
        if not stop.reason:
            await _record(wish, ticket, leases.given_up("cancelled", leases.GONE), began, sent)
            raise
        asyncio.current_task().uncancel()  # type: ignore[union-attr]  # every loop runs its coroutines in a task
        answered = leases.given_up(stop.reason, ENDED, "Unauthorized")
    except Exception:
        # A fault of ours, and a row all the same.
        unexpected = Answered(CallStatus.ERROR, None, "unexpected", "InternalError", UNEXPECTED, service="")
        await _record(wish, ticket, unexpected, began, sent)
        raise
    finally:
        stop.listen_no_more()
    return await _record(wish, ticket, answered, began, sent)


async def _call(ask: Ask, ticket: Ticket) -> Answered:
    reach = kept.find(ticket.server_id, ticket.revision, ticket.era)
    if reach is None:
        reach = await run_in_thread(partial(kept.load, ticket.server_id))
    if reach.target.revision != ticket.revision:
        # What was decided upon is not what would be called now.
        said = "The server was changed while the call was decided. Nothing was sent; send it again."
        return Answered(CallStatus.ERROR, None, "upstream", "ExecutionFailed", said, service="")
    return await upstream_call.call(
        ticket,
        reach,
        ask.arguments,
        meta={"gatehouse/request_id": str(ask.request_id), "gatehouse/call_id": str(ticket.call_id)},
        on_progress=ask.on_progress,
        input_schema=arguments.schema(ticket.definition_id),
    )


async def _record(wish: Wish, ticket: Ticket, answered: Answered, began: float, sent: float) -> Outcome:
    """The row first, then the answer."""
    now = time.monotonic()
    times = {"decide_ms": round((sent - began) * 1000, 3), "upstream_ms": round((now - sent) * 1000, 3)}
    public = public_messages.with_request(answered.public, wish.request_id) if answered.public else ""
    details = {**times, public_messages.PUBLIC_MESSAGE: public} if public else times
    outcome = leases.outcome_of(ticket, answered, duration=(now - began) * 1000, details=details)
    recorded = await leases.recorded(outcome)
    if outcome.tells:
        await leases.told(outcome)
    if not recorded:
        answered = Answered(CallStatus.ERROR, None, "lost", "Timeout", "This call had been given up as lost.")
        public = ""
    left = ticket.left
    told = Outcome(
        call_id=ticket.call_id,
        status=answered.status,
        reason=answered.reason,
        message=public or answered.message,
        error_code=answered.error_code,
        result=answered.result,
        latency_ms=round((time.monotonic() - began) * 1000, 3),
        remaining=left.remaining if left else None,
        reset=left.reset if left else None,
        required=answered.required,
    )
    call_numbers.count(told.status, told.reason, time.monotonic() - began)
    _tell(wish, replace(told, message=answered.message), began, redacted=answered.redacted)
    return told


def _refused(refusal: Refusal, began: float) -> Outcome:
    status = refusal.status
    if refusal.unknown_bearer:
        status = "unauthenticated"
    elif refusal.reason == "approval_required":
        status = "pending_approval"
    return Outcome(
        call_id=refusal.call_id if refusal.recorded else refusal.approval_id,
        recorded=refusal.recorded,
        status=status,
        reason=refusal.reason,
        message=refusal.message,
        error_code=refusal.error_code,
        held=refusal.held,
        retry_after=refusal.retry_after,
        latency_ms=round((time.monotonic() - began) * 1000, 3),
        expires_at=refusal.expires_at,
        needs_superuser=refusal.needs_superuser,
        remaining=refusal.left.remaining if refusal.left else None,
        reset=refusal.left.reset if refusal.left else None,
        fields=refusal.fields,
        breaker_scope=refusal.breaker_scope,
    )


def _tell_task(waiting: WaitingCall) -> None:
    """Its own business: the call is refused and on record already."""
    try:
        hooks.notify_call_waiting(waiting)
    except Exception:
        log.exception("a task was not told that a call of it waits", extra={"task_id": str(waiting.task_id)})


def _wish(ask: Ask, shown: tokens.ParsedBearerToken) -> Wish:
    server, tool = (ask.server, ask.tool) if ask.server else split(ask.tool)
    return Wish(
        call_id=uuid7(),
        shown=shown,
        audience=oauth.rest_resource() if ask.door == "rest" else oauth.mcp_resource(),
        server=server,
        tool=tool,
        arguments=ask.arguments,
        args_hash=hashlib.sha256(canonical_json.encode(ask.arguments)).hexdigest(),
        request_id=ask.request_id,
        source=ask.source,
        circumstances=ask.context,
        door=ask.door,
        problem=ask.problem,
        problem_fields=ask.problem_fields,
    )


def split(name: str) -> tuple[str, str]:
    """A qualified name at its first `__`; one without it names no server."""
    server, _, tool = name.partition("__")
    return server, tool


def _caller(wish: Wish) -> str:
    shown = wish.shown
    return shown.public_id if isinstance(shown, tokens.ParsedCredentialToken) else str(shown.credential_id)


def _tell(wish: Wish, outcome: Outcome, began: float, *, redacted: bool = False) -> None:
    call_log.tell(
        wish,
        call_id=outcome.call_id,
        status=outcome.status,
        reason=outcome.reason,
        message=outcome.message,
        result=outcome.result,
        seconds=time.monotonic() - began,
        redacted=redacted,
    )
