"""Parses REST call bodies and renders call results as REST answers, with one table of statuses."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from django.conf import settings

from common import context
from common.errors import FieldError, InvalidInput
from mcp.gateway.gateway import CallContext, CallResult
from mcp.server.request_parser import CONTEXT_FIELDS
from nhi.authorization import oauth
from nhi.choices import CallStatus

#: Status by the reason of an unsuccessful call. Every other reason is a denial, 403.
REST_STATUS: dict[str, int] = {
    "invalid_parameters": 400,
    "tool_error": 502,
    "upstream": 502,
    "unreadable": 502,
    "timeout": 504,
    "lost": 504,
    "cancelled": 499,
    "breaker_open": 503,
    "rate_exceeded": 429,
    "quota_exceeded": 429,
    "concurrency_exceeded": 429,
    "unexpected": 500,
}
NOT_FOUND_MESSAGE = "There is nothing here that you can see."
#: Context fields whose name in the log row differs.
RECORD_FIELD_NAMES = {"conversation_id": "thread_id"}


@dataclass(frozen=True)
class RestResponse:
    status: int
    body: dict[str, Any]
    headers: dict[str, str] = field(default_factory=dict)


def render_result(outcome: CallResult) -> RestResponse:
    if outcome.status == CallStatus.SUCCESS:
        body = {
            "call_id": str(outcome.call_id),
            "result": render_tool_result(outcome.result),
            "latency_ms": outcome.latency_ms,
        }
        return RestResponse(200, body, _build_headers(outcome))
    if outcome.status == "pending_approval":
        ends = outcome.expires_at.isoformat().replace("+00:00", "Z") if outcome.expires_at else None
        body = {"call_id": str(outcome.call_id), "status": "pending_approval", "expires_at": ends}
        if outcome.needs_superuser:
            body["message"] = outcome.message
        return RestResponse(202, body, _build_headers(outcome))
    if outcome.status == "unauthenticated":
        return RestResponse(
            401, _build_error_body("Unauthorized", outcome.message, outcome.reason), build_challenge_headers()
        )
    if not outcome.tool_is_visible:
        # A tool that the caller has no grant for is answered like a tool that does not exist.
        return RestResponse(404, _build_error_body("NotFound", NOT_FOUND_MESSAGE, "not_found"), _build_headers(outcome))
    return _render_refusal(outcome)


def parse_call_body(body: Any) -> tuple[dict[str, Any], CallContext]:
    """Return the arguments and the context of the call."""
    if not isinstance(body, dict):
        raise InvalidInput("Send a JSON object with parameters.")
    problems = [FieldError(name, "There is no such field.") for name in body if name not in {"parameters", "context"}]
    parameters, around = body.get("parameters"), body.get("context") or {}
    if "parameters" not in body:
        problems.append(FieldError("parameters", "This is required; {} for a tool that takes nothing."))
    elif not isinstance(parameters, dict):
        problems.append(FieldError("parameters", "Give a JSON object."))
    if not isinstance(around, dict):
        problems.append(FieldError("context", "Give a JSON object."))
        around = {}
    problems += _find_context_problems(around)
    if problems:
        first = problems[0]
        raise InvalidInput(f"{first.field}: {first.message}", fields=problems)
    assert isinstance(parameters, dict)  # checked above
    return parameters, build_call_context(around)


def build_call_context(said: Mapping[str, str | None]) -> CallContext:
    """Build the context of a call as it is recorded, for MCP and REST."""
    return CallContext(**{RECORD_FIELD_NAMES.get(name, name): value or "" for name, value in said.items()})


def render_tool_result(result: dict[str, Any] | None) -> dict[str, Any]:
    """Return an MCP result with the field names and the fields of REST."""
    given = result or {}
    found: dict[str, Any] = {"content": given.get("content") or []}
    if "structuredContent" in given:
        found["structured_content"] = given["structuredContent"]
    return found


def build_challenge_headers(refused: bool = True) -> dict[str, str]:
    error = 'error="invalid_token", ' if refused else ""
    return {"WWW-Authenticate": f'Bearer {error}resource_metadata="{settings.PUBLIC_URL}{oauth.REST_METADATA_PATH}"'}


def _render_refusal(outcome: CallResult) -> RestResponse:
    status = REST_STATUS.get(outcome.reason, 403)
    details: dict[str, Any] = {}
    if outcome.reason == "tool_error":
        details["result"] = render_tool_result(outcome.result)
    if outcome.retry_after is not None:
        details["retry_after"] = outcome.retry_after
    if outcome.breaker_scope:
        details["breaker"] = {"scope": outcome.breaker_scope}
    if outcome.call_id is not None and outcome.recorded:
        details["call_id"] = str(outcome.call_id)
    code = outcome.error_code or "Unauthorized"
    body = _build_error_body(code, outcome.message, outcome.reason, details, outcome.fields)
    return RestResponse(status, body, _build_headers(outcome))


def _build_headers(outcome: CallResult) -> dict[str, str]:
    said = {
        "X-Call-ID": outcome.call_id if outcome.recorded else None,
        "Retry-After": outcome.retry_after,
        "RateLimit-Remaining": outcome.remaining,
        "RateLimit-Reset": outcome.reset,
    }
    return {name: str(value) for name, value in said.items() if value is not None}


def _build_error_body(
    code: str, message: str, reason: str, details: dict[str, Any] | None = None,
    fields: tuple[tuple[str, str], ...] = (),
) -> dict[str, Any]:  # fmt: skip
    named = [{"field": name, "message": said} for name, said in fields]
    return {
        "error_code": code,
        "message": message,
        "details": {**(details or {}), "reason": reason, "fields": named},
        "request_id": str(context.current().request_id),
    }


def _find_context_problems(around: dict[str, Any]) -> list[FieldError]:
    found = []
    for name, value in around.items():
        place, longest = f"context.{name}", CONTEXT_FIELDS.get(name)
        if longest is None:
            found.append(FieldError(place, "There is no such field."))
        elif value is not None and not isinstance(value, str):
            found.append(FieldError(place, "Give a text."))
        elif value is not None and len(value) > longest:
            found.append(FieldError(place, f"Use at most {longest} characters."))
    return found
