"""Renders call results as MCP answers: a result, or an error with its status."""

import logging
from dataclasses import replace
from typing import Any
from uuid import UUID

from django.db import InterfaceError, OperationalError

from common.asgi.headers import HeaderPairs
from common.errors import GatehouseError, RateLimited
from mcp.gateway.types import CallResult
from mcp.server import errors, message_builder, request_headers
from mcp.server.errors import ErrorResponse
from mcp.server.request_headers import EndpointSettings
from nhi.decisions.reasons import outcome_of

log = logging.getLogger(__name__)
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
    call_result: CallResult,
    settings: EndpointSettings,
    info: dict[str, str],
    declared_capabilities: frozenset[str] = frozenset(),
) -> dict[str, Any] | ErrorResponse:
    if call_result.status == "unauthenticated":
        return request_headers.unauthenticated_error(settings, call_result.reason, call_result.message)
    if not call_result.tool_is_visible:
        # The same message for a tool that does not exist and for a tool that the caller has no grant for.
        return errors.protocol_error(errors.INVALID_PARAMS, "There is no such tool here that you may call.")
    if any(name not in declared_capabilities for name in call_result.required_capabilities):
        # The protocol defines this error for clients that did not declare the capability. Other clients get a result.
        required_capabilities: dict[str, Any] = {name: {} for name in call_result.required_capabilities}
        return errors.protocol_error(
            errors.MISSING_CAPABILITY, call_result.message, requiredCapabilities=required_capabilities
        )
    # A refusal that was only counted has no log row, so it has no call id.
    call_id = "" if call_result.call_id is None or not call_result.recorded else str(call_result.call_id)
    if call_result.result is not None and call_result.status in {"success", "error"}:
        return message_builder.build_tool_result(call_result.result, call_id=call_id, info=info)
    return message_builder.build_refusal_result(
        "\n".join((call_result.message, *(f"{field}: {problem}" for field, problem in call_result.fields))),
        mark=message_builder.FAILED_KEY if outcome_of(call_result.reason).failed else message_builder.DENIED_KEY,
        info=info,
        call_id=call_id,
        reason=call_result.reason,
        retry_after=call_result.retry_after,
        expires_at=None if call_result.expires_at is None else call_result.expires_at.isoformat(),
        fields=[{"field": field, "message": problem} for field, problem in call_result.fields] or None,
    )


def build_quota_headers(call_result: CallResult) -> HeaderPairs:
    """Build the quota headers, the same as those of REST. An open stream carries the call id only in its result."""
    quota = call_result.quota
    values: list[tuple[bytes, UUID | int | None]] = [
        (b"x-call-id", call_result.call_id if call_result.recorded else None),
        (b"retry-after", call_result.retry_after),
        (b"ratelimit-remaining", quota.remaining if quota else None),
        (b"ratelimit-reset", quota.reset if quota else None),
    ]
    return tuple((name, str(value).encode()) for name, value in values if value is not None)


def render_failure(error: Exception) -> ErrorResponse:
    """Render an error of the gateway itself."""
    if isinstance(error, OperationalError | InterfaceError):
        log.warning("the database is away", exc_info=error)
        return _internal_error(503, "database_unavailable", "The database cannot be reached, so nothing was done.")
    if isinstance(error, GatehouseError) and error.code in ERROR_STATUS:
        retry_after = error.retry_after if isinstance(error, RateLimited) else None
        headers = () if retry_after is None else ((b"retry-after", str(retry_after).encode()),)
        return replace(_internal_error(ERROR_STATUS[error.code], error.code, error.message), headers=headers)
    log.error("unexpected", exc_info=error)
    return _internal_error(500, "unexpected", "Something went wrong here. Name the request id when you report it.")


def _internal_error(status: int, reason: str, message: str) -> ErrorResponse:
    return ErrorResponse(status, errors.INTERNAL_ERROR, message, {"reason": reason})
