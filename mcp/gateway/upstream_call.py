"""Calls the tool's server, outside any transaction, and turns the answer or the failure into a redacted result."""

import asyncio
from dataclasses import dataclass
from typing import Any

from mcp_types.jsonrpc import MISSING_REQUIRED_CLIENT_CAPABILITY

from common.redaction.redactor import Redactor
from mcp.choices import FaultKind
from mcp.client import transports
from mcp.client.transports import OnProgress
from mcp.gateway import public_messages
from mcp.gateway.types import CallLease
from mcp.protocol.errors import UpstreamError, UpstreamFault
from mcp.servers.targets import ResolvedServer
from nhi.choices import CallStatus

#: Time beyond the call's timeout in which a transport can still report its own error.
DEADLINE_MARGIN_SECONDS = 0.5
#: Larger results are redacted in a thread, so that they do not block the event loop.
MAX_INLINE_REDACTION_SIZE = 256 * 1024
#: Capabilities that a client can declare. Other names from the server are not repeated in messages.
CLIENT_CAPABILITIES = ("elicitation", "experimental", "extensions", "roots", "sampling", "tasks")


@dataclass(frozen=True)
class UpstreamResult:
    """The redacted result of an upstream call. It contains no secret that Gatehouse knows."""

    status: str
    result: dict[str, Any] | None = None
    reason: str = ""
    error_code: str = ""
    message: str = ""
    #: Message for the caller where `message` is meant for operators.
    public_message: str = ""
    redacted: bool = False
    service_verdict: str = "success"
    #: Kind of the fault, when `service_verdict` is "fault".
    fault_kind: FaultKind = FaultKind.ANSWER
    #: Client capabilities that the server requires and that Gatehouse does not pass on.
    required_capabilities: tuple[str, ...] = ()


async def call_tool(
    ticket: CallLease, reach: ResolvedServer, arguments: dict[str, Any], *, meta: dict[str, Any],
    on_progress: OnProgress | None, input_schema: dict[str, Any] | None,
) -> UpstreamResult:  # fmt: skip
    redactor = Redactor(secret_values=frozenset(reach.secret_values))
    told = _redact_progress(redactor, on_progress) if on_progress is not None else None
    try:
        async with asyncio.timeout(ticket.timeout + DEADLINE_MARGIN_SECONDS):
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
        return _build_timeout_result(ticket)
    except UpstreamFault as fault:
        return _build_fault_result(ticket, fault, redactor)
    except UpstreamError as error:
        return _build_error_result(error, redactor)
    return await _build_result(result, redactor)


async def _build_result(result: dict[str, Any], redactor: Redactor) -> UpstreamResult:
    if not _has_content_blocks(result):
        said = "The server's result has no list of content, as the protocol wants it."
        return UpstreamResult(CallStatus.ERROR, None, "upstream", "ExecutionFailed", said, service_verdict="fault")
    if _estimate_size(result) > MAX_INLINE_REDACTION_SIZE:
        shown, changed = await asyncio.to_thread(redactor.redact_and_report, result)
    else:
        shown, changed = redactor.redact_and_report(result)
    if not isinstance(shown, dict):
        said = "The result could not be looked through for secrets, so it is not given on."
        return UpstreamResult(CallStatus.ERROR, None, "unreadable", "ExecutionFailed", said, redacted=True)
    if shown.get("isError"):
        said = _find_first_text(shown) or "The tool reported an error."
        return UpstreamResult(CallStatus.ERROR, shown, "tool_error", "ExecutionFailed", said[:500], redacted=changed)
    return UpstreamResult(CallStatus.SUCCESS, shown, redacted=changed)


def _build_timeout_result(ticket: CallLease, *, sent: bool = True) -> UpstreamResult:
    effect = "may have had an effect" if sent else "was not sent"
    said = f"No answer within {ticket.timeout:g} s. The call {effect}."
    # A timeout that a budget shortened says nothing about the server.
    return UpstreamResult(
        CallStatus.ERROR,
        None,
        "timeout",
        "Timeout",
        said,
        service_verdict="" if ticket.has_shortened_timeout else "fault",
    )


def _build_fault_result(ticket: CallLease, fault: UpstreamFault, redactor: Redactor) -> UpstreamResult:
    if fault.code == "timeout":
        return _build_timeout_result(ticket, sent=fault.sent)
    # Faults of the stdio host, and messages that Gatehouse cannot pass on, are no faults of the server.
    service = "" if fault.is_own else "fault"
    kind = FaultKind.CONNECTION if fault.is_connection_fault else FaultKind.ANSWER
    message, public = redactor.redact_text(fault.detail), public_messages.fault_message(fault)
    redacted = message != fault.detail
    return UpstreamResult(
        CallStatus.ERROR, None, "upstream", "ExecutionFailed", message, public, redacted, service, fault_kind=kind
    )


def _build_error_result(error: UpstreamError, redactor: Redactor) -> UpstreamResult:
    if error.code == MISSING_REQUIRED_CLIENT_CAPABILITY:
        return _build_missing_capability_result(error)
    said = redactor.redact_text(error.message)
    changed = said != error.message
    if error.blames_caller:
        return UpstreamResult(CallStatus.ERROR, None, "invalid_parameters", "InvalidParameters", said, redacted=changed)
    public = public_messages.error_message(error)
    return UpstreamResult(CallStatus.ERROR, None, "upstream", "ExecutionFailed", said, public, changed, "fault")


def _build_missing_capability_result(error: UpstreamError) -> UpstreamResult:
    wanted = error.data.get("requiredCapabilities") if isinstance(error.data, dict) else None
    named = tuple(name for name in CLIENT_CAPABILITIES if isinstance(wanted, dict) and name in wanted)
    what = f": {', '.join(named)}" if named else ""
    said = f"The tool needs capabilities of its client that Gatehouse does not pass on{what}. It was not run."
    return UpstreamResult(
        CallStatus.ERROR, None, "invalid_parameters", "InvalidParameters", said, required_capabilities=named
    )


def _redact_progress(redactor: Redactor, on_progress: OnProgress) -> OnProgress:
    async def told(progress: dict[str, Any]) -> None:
        await on_progress(redactor.redact_value(progress))

    return told


def _has_content_blocks(result: dict[str, Any]) -> bool:
    """Whether the content is a list of objects, which clients rely on. Missing content counts as an empty list."""
    content = result.get("content") or []
    return isinstance(content, list) and all(isinstance(block, dict) for block in content)


def _find_first_text(result: dict[str, Any]) -> str:
    content = result.get("content")
    for block in content if isinstance(content, list) else ():
        if isinstance(block, dict) and isinstance(block.get("text"), str):
            return str(block["text"])
    return ""


def _estimate_size(value: Any) -> int:
    """Estimate the size of a value. Counting stops once it exceeds MAX_INLINE_REDACTION_SIZE."""
    left, seen = [value], 0
    while left and seen <= MAX_INLINE_REDACTION_SIZE:
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
