"""Renders call results as MCP answers: a result, or an error with its status."""

import logging
from dataclasses import replace
from typing import Any
from uuid import UUID

from django.db import InterfaceError, OperationalError

from common.asgi.headers import HeaderPairs
from common.errors import GatehouseError, RateLimited
from mcp.gateway.gateway import CallResult
from mcp.server import admission, errors, results
from mcp.server.admission import EndpointSettings
from mcp.server.errors import ErrorResponse

log = logging.getLogger(__name__)
#: Reasons of calls that were sent and failed. Every other reason is a denial: nothing was sent, or access ended during
#: the call.
FAILED_REASONS = frozenset({"tool_error", "upstream", "unreadable", "timeout", "lost", "cancelled", "unexpected"})
#: Status by error code, for errors that the gateway raises when it cannot decide, or stops before the call has ended.
ERROR_STATUS = {
    "record_unavailable": 503,
    "database_unavailable": 503,
    "queue_full": 503,
    "overloaded": 503,
    "stopping": 503,
    "limited": 429,
}


def render_result(
    outcome: CallResult, house: EndpointSettings, info: dict[str, str], declared: frozenset[str] = frozenset()
) -> dict[str, Any] | ErrorResponse:
    if outcome.status == "unauthenticated":
        return admission.unauthenticated_error(house, outcome.reason, outcome.message)
    if not outcome.tool_is_visible:
        # The same message for a tool that does not exist and for a tool that the caller has no grant for.
        return errors.protocol_error(errors.INVALID_PARAMS, "There is no such tool here that you may call.")
    if any(name not in declared for name in outcome.required_capabilities):
        # The protocol defines this error for clients that did not declare the capability. Other clients get a result.
        wanted: dict[str, Any] = {name: {} for name in outcome.required_capabilities}
        return errors.protocol_error(errors.MISSING_CAPABILITY, outcome.message, requiredCapabilities=wanted)
    # A refusal that was only counted has no log row, so it has no call id.
    call_id = "" if outcome.call_id is None or not outcome.recorded else str(outcome.call_id)
    if outcome.result is not None and outcome.status in {"success", "error"}:
        return results.build_tool_result(outcome.result, call_id=call_id, info=info)
    return results.build_refusal_result(
        "\n".join((outcome.message, *(f"{place}: {said}" for place, said in outcome.fields))),
        mark=results.FAILED_KEY if outcome.reason in FAILED_REASONS else results.DENIED_KEY,
        info=info,
        call_id=call_id,
        reason=outcome.reason,
        retry_after=outcome.retry_after,
        expires_at=None if outcome.expires_at is None else outcome.expires_at.isoformat(),
        fields=[{"field": place, "message": said} for place, said in outcome.fields] or None,
    )


def build_quota_headers(outcome: CallResult) -> HeaderPairs:
    """Build the quota headers, the same as those of REST. An open stream carries the call id only in its result."""
    found: list[tuple[bytes, UUID | int | None]] = [
        (b"x-call-id", outcome.call_id if outcome.recorded else None),
        (b"retry-after", outcome.retry_after),
        (b"ratelimit-remaining", outcome.remaining),
        (b"ratelimit-reset", outcome.reset),
    ]
    return tuple((name, str(value).encode()) for name, value in found if value is not None)


def render_failure(error: Exception) -> ErrorResponse:
    """Render an error of the gateway itself."""
    if isinstance(error, OperationalError | InterfaceError):
        log.warning("the database is away", exc_info=error)
        return _internal_error(503, "database_unavailable", "The database cannot be reached, so nothing was done.")
    if isinstance(error, GatehouseError) and error.code in ERROR_STATUS:
        wait = error.retry_after if isinstance(error, RateLimited) else None
        headers = () if wait is None else ((b"retry-after", str(wait).encode()),)
        return replace(_internal_error(ERROR_STATUS[error.code], error.code, error.message), headers=headers)
    log.error("unexpected", exc_info=error)
    return _internal_error(500, "unexpected", "Something went wrong here. Name the request id when you report it.")


def _internal_error(status: int, reason: str, message: str) -> ErrorResponse:
    return ErrorResponse(status, errors.INTERNAL_ERROR, message, {"reason": reason})
