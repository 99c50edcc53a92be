"""Calls the tool's server, outside any transaction, and turns the answer or the failure into a redacted result."""

import asyncio
from typing import Any

from mcp_types.jsonrpc import MISSING_REQUIRED_CLIENT_CAPABILITY

from common.redaction.redactor import Redactor
from mcp.choices import FaultKind
from mcp.client import transports
from mcp.client.transports import OnProgress
from mcp.gateway import public_messages
from mcp.gateway.types import CallLease, CallRequest, CallResult
from mcp.protocol.upstream_errors import UpstreamError, UpstreamFault
from mcp.servers.targets import ResolvedServer
from nhi.choices import CallStatus

#: Time beyond the call's timeout in which a transport can still report its own error.
DEADLINE_MARGIN_SECONDS = 0.5
#: Larger results are redacted in a thread, so that they do not block the event loop.
MAX_INLINE_REDACTION_SIZE = 256 * 1024
#: Capabilities that a client can declare. Other names from the server are not repeated in messages.
CLIENT_CAPABILITIES = ("elicitation", "experimental", "extensions", "roots", "sampling", "tasks")


async def call_tool(
    lease: CallLease, server: ResolvedServer, request: CallRequest, *, input_schema: dict[str, Any] | None
) -> CallResult:
    redactor = Redactor(secret_values=frozenset(server.secret_values))
    report_progress = _redact_progress(redactor, request.on_progress) if request.on_progress is not None else None
    try:
        async with asyncio.timeout(lease.timeout + DEADLINE_MARGIN_SECONDS):
            result = await transports.call_tool(
                server.target,
                lease.tool,
                request.arguments,
                timeout=lease.timeout,
                meta={"gatehouse/request_id": str(request.request_id), "gatehouse/call_id": str(lease.call_id)},
                on_progress=report_progress,
                input_schema=input_schema,
            )
    except TimeoutError:
        return _build_timeout_result(lease)
    except UpstreamFault as fault:
        return _build_fault_result(lease, fault, redactor)
    except UpstreamError as error:
        return _build_error_result(lease, error, redactor)
    return await _build_result(lease, result, redactor)


async def _build_result(lease: CallLease, result: dict[str, Any], redactor: Redactor) -> CallResult:
    if not _has_content_blocks(result):
        message = "The server's result has no list of content, as the protocol wants it."
        return _build_error(lease, "upstream", message, service_verdict="fault")
    if _estimate_size(result) > MAX_INLINE_REDACTION_SIZE:
        redacted_result, has_secrets = await asyncio.to_thread(redactor.redact_and_report, result)
    else:
        redacted_result, has_secrets = redactor.redact_and_report(result)
    if not isinstance(redacted_result, dict):
        message = "The result could not be looked through for secrets, so it is not given on."
        return _build_error(lease, "unreadable", message, redacted=True)
    if redacted_result.get("isError"):
        message = _find_first_text(redacted_result) or "The tool reported an error."
        return _build_error(lease, "tool_error", message[:500], result=redacted_result, redacted=has_secrets)
    return CallResult(
        CallStatus.SUCCESS, result=redacted_result, lease=lease, redacted=has_secrets, service_verdict="success"
    )


def _build_error(lease: CallLease, reason: str, message: str, **fields: Any) -> CallResult:
    """Build the result of a failed call. The service is healthy unless `service_verdict` differs."""
    return CallResult(CallStatus.ERROR, reason, message, lease=lease, **{"service_verdict": "success", **fields})


def _build_timeout_result(lease: CallLease, *, sent: bool = True) -> CallResult:
    effect = "may have had an effect" if sent else "was not sent"
    message = f"No answer within {lease.timeout:g} s. The call {effect}."
    # A timeout that a budget shortened says nothing about the server.
    return _build_error(lease, "timeout", message, service_verdict="" if lease.has_shortened_timeout else "fault")


def _build_fault_result(lease: CallLease, fault: UpstreamFault, redactor: Redactor) -> CallResult:
    if fault.code == "timeout":
        return _build_timeout_result(lease, sent=fault.sent)
    operator_message = redactor.redact_text(fault.detail)
    return _build_error(
        lease,
        "upstream",
        public_messages.fault_message(fault),
        operator_message=operator_message,
        redacted=operator_message != fault.detail,
        # Faults of the stdio host, and messages that Gatehouse cannot pass on, are no faults of the server.
        service_verdict="" if fault.is_own else "fault",
        fault_kind=FaultKind.CONNECTION if fault.is_connection_fault else FaultKind.ANSWER,
    )


def _build_error_result(lease: CallLease, error: UpstreamError, redactor: Redactor) -> CallResult:
    if error.code == MISSING_REQUIRED_CLIENT_CAPABILITY:
        return _build_missing_capability_result(lease, error)
    message = redactor.redact_text(error.message)
    redacted = message != error.message
    if error.blames_caller:
        return _build_error(lease, "invalid_parameters", message, redacted=redacted)
    return _build_error(
        lease,
        "upstream",
        public_messages.error_message(error),
        operator_message=message,
        redacted=redacted,
        service_verdict="fault",
    )


def _build_missing_capability_result(lease: CallLease, error: UpstreamError) -> CallResult:
    required = error.data.get("requiredCapabilities") if isinstance(error.data, dict) else None
    capabilities = tuple(name for name in CLIENT_CAPABILITIES if isinstance(required, dict) and name in required)
    name_list = f": {', '.join(capabilities)}" if capabilities else ""
    message = f"The tool needs capabilities of its client that Gatehouse does not pass on{name_list}. It was not run."
    return _build_error(lease, "invalid_parameters", message, required_capabilities=capabilities)


def _redact_progress(redactor: Redactor, on_progress: OnProgress) -> OnProgress:
    async def report_redacted(progress: dict[str, Any]) -> None:
        await on_progress(redactor.redact_value(progress))

    return report_redacted


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
    unvisited, size = [value], 0
    while unvisited and size <= MAX_INLINE_REDACTION_SIZE:
        item = unvisited.pop()
        if isinstance(item, str):
            size += len(item)
        elif isinstance(item, dict):
            size += len(item)
            unvisited.extend(item.values())
        elif isinstance(item, list):
            size += len(item)
            unvisited.extend(item)
    return size
