"""The call itself, outside of any transaction: what a server answered, or why it did not, as the log will say it."""

import asyncio
from dataclasses import dataclass
from typing import Any

from mcp_types.jsonrpc import MISSING_REQUIRED_CLIENT_CAPABILITY

from common.redaction.redactor import Redactor
from mcp.choices import FaultKind
from mcp.client import transports
from mcp.client.transports import OnProgress
from mcp.gateway import public_messages
from mcp.gateway.types import Ticket
from mcp.protocol.errors import UpstreamError, UpstreamFault
from mcp.servers.targets import Reach
from nhi.choices import CallStatus

#: What a transport may take past the call's own deadline to say why.
MARGIN = 0.5
#: Redacting more than this would hold up everybody else on the loop.
LARGE = 256 * 1024
#: What a client can declare; other names would be the server's words in our mouth.
CAPABILITIES = ("elicitation", "experimental", "extensions", "roots", "sampling", "tasks")


@dataclass(frozen=True)
class Answered:
    """What came of it, redacted: nothing of this still holds a secret that Gatehouse knows."""

    status: str
    result: dict[str, Any] | None = None
    reason: str = ""
    error_code: str = ""
    message: str = ""
    #: What the caller is answered in place of `message`, where that is an operator's text.
    public: str = ""
    redacted: bool = False
    service: str = "success"
    #: What kind of fault it is, where `service` is "fault".
    fault_kind: FaultKind = FaultKind.ANSWER
    #: Capabilities that the server wants of its client, and that are not passed on.
    required: tuple[str, ...] = ()


async def call(
    ticket: Ticket, reach: Reach, arguments: dict[str, Any], *, meta: dict[str, Any], on_progress: OnProgress | None,
    input_schema: dict[str, Any] | None,
) -> Answered:  # fmt: skip
    redactor = Redactor(secret_values=frozenset(reach.known_values))
    told = _redacted_progress(redactor, on_progress) if on_progress is not None else None
    try:
        async with asyncio.timeout(ticket.timeout + MARGIN):
            result = await transports.call_tool(
                reach.target,
                ticket.tool,
                arguments,
                timeout=ticket.timeout,
                meta=meta,
                on_progress=told,
                input_schema=input_schema,
            )
    except TimeoutError:
        return _timed_out(ticket)
    except UpstreamFault as fault:
        return _faulted(ticket, fault, redactor)
    except UpstreamError as error:
        return _refused(error, redactor)
    return await _read(result, redactor)


async def _read(result: dict[str, Any], redactor: Redactor) -> Answered:
    if not _has_blocks(result):
        said = "The server's result has no list of content, as the protocol wants it."
        return Answered(CallStatus.ERROR, None, "upstream", "ExecutionFailed", said, service="fault")
    if _size(result) > LARGE:
        shown, changed = await asyncio.to_thread(redactor.redact_and_report, result)
    else:
        shown, changed = redactor.redact_and_report(result)
    if not isinstance(shown, dict):
        said = "The result could not be looked through for secrets, so it is not given on."
        return Answered(CallStatus.ERROR, None, "unreadable", "ExecutionFailed", said, redacted=True)
    if shown.get("isError"):
        said = _first_text(shown) or "The tool reported an error."
        return Answered(CallStatus.ERROR, shown, "tool_error", "ExecutionFailed", said[:500], redacted=changed)
    return Answered(CallStatus.SUCCESS, shown, redacted=changed)


def _timed_out(ticket: Ticket, *, sent: bool = True) -> Answered:
    effect = "may have had an effect" if sent else "was not sent"
    said = f"No answer within {ticket.timeout:g} s. The call {effect}."
    # Whom a budget gives less time than the server has says nothing of the server.
    return Answered(CallStatus.ERROR, None, "timeout", "Timeout", said, service="" if ticket.hurried else "fault")


def _faulted(ticket: Ticket, fault: UpstreamFault, redactor: Redactor) -> Answered:
    if fault.code == "timeout":
        return _timed_out(ticket, sent=fault.sent)
    # The process that runs stdio servers is ours, and so is what we cannot pass on: neither says that the server fails.
    service = "" if fault.is_own else "fault"
    kind = FaultKind.CONNECTION if fault.of_connection else FaultKind.ANSWER
    message, public = redactor.redact_text(fault.detail), public_messages.of_fault(fault)
    redacted = message != fault.detail
    return Answered(
        CallStatus.ERROR, None, "upstream", "ExecutionFailed", message, public, redacted, service, fault_kind=kind
    )  # fmt: skip


def _refused(error: UpstreamError, redactor: Redactor) -> Answered:
    if error.code == MISSING_REQUIRED_CLIENT_CAPABILITY:
        return _wants_more(error)
    said = redactor.redact_text(error.message)
    changed = said != error.message
    if error.callers_fault:
        return Answered(CallStatus.ERROR, None, "invalid_parameters", "InvalidParameters", said, redacted=changed)
    public = public_messages.of_error(error)
    return Answered(CallStatus.ERROR, None, "upstream", "ExecutionFailed", said, public, changed, "fault")


def _wants_more(error: UpstreamError) -> Answered:
    wanted = error.data.get("requiredCapabilities") if isinstance(error.data, dict) else None
    named = tuple(name for name in CAPABILITIES if isinstance(wanted, dict) and name in wanted)
    what = f": {', '.join(named)}" if named else ""
    said = f"The tool needs capabilities of its client that Gatehouse does not pass on{what}. It was not run."
    return Answered(CallStatus.ERROR, None, "invalid_parameters", "InvalidParameters", said, required=named)


def _redacted_progress(redactor: Redactor, on_progress: OnProgress) -> OnProgress:
    async def told(progress: dict[str, Any]) -> None:
        await on_progress(redactor.redact_value(progress))

    return told


def _has_blocks(result: dict[str, Any]) -> bool:
    """Who reads the answer counts on a list of objects; none at all is an empty list."""
    content = result.get("content") or []
    return isinstance(content, list) and all(isinstance(block, dict) for block in content)


def _first_text(result: dict[str, Any]) -> str:
    content = result.get("content")
    for block in content if isinstance(content, list) else ():
        if isinstance(block, dict) and isinstance(block.get("text"), str):
            return str(block["text"])
    return ""


def _size(value: Any) -> int:
    """Roughly, and no further than it takes to know."""
    left, seen = [value], 0
    while left and seen <= LARGE:
        item = left.pop()
        if isinstance(item, str):
            seen += len(item)
        elif isinstance(item, dict):
            seen += len(item)
            left.extend(item.values())
        elif isinstance(item, list):
            seen += len(item)
            left.extend(item)
    return seen
