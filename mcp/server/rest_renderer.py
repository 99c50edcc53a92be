"""Parses REST call bodies and renders call results as REST answers."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Required, TypedDict

from django.conf import settings

from common import context
from common.errors import FieldError, InvalidInput
from mcp.gateway.types import CallContext, CallResult
from mcp.server.request_parser import CONTEXT_FIELDS
from nhi.authorization import oauth
from nhi.choices import CallStatus
from nhi.decisions.reasons import outcome_of

NOT_FOUND_MESSAGE = "There is nothing here that you can see."
#: Context fields whose name in the log row differs.
RECORD_FIELD_NAMES = {"conversation_id": "thread_id"}


class CallBody(TypedDict, total=False):
    """What the body of a REST call adds to its `CallRequest`: arguments and context, or why it was not parsed."""

    arguments: Required[dict[str, Any]]
    context: CallContext
    problem: str
    problem_fields: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class RestResponse:
    """The answer to a tool call over REST. The body is not yet encoded."""

    status: int
    body: dict[str, Any]
    headers: dict[str, str] = field(default_factory=dict)


def render_result(call_result: CallResult) -> RestResponse:
    if call_result.status == CallStatus.SUCCESS:
        body = {
            "call_id": str(call_result.call_id),
            "result": render_tool_result(call_result.result),
            "latency_ms": round(call_result.duration_ms, 3),
        }
        return RestResponse(200, body, _build_headers(call_result))
    if call_result.status == "pending_approval":
        expires_at = call_result.expires_at.isoformat().replace("+00:00", "Z") if call_result.expires_at else None
        body = {"call_id": str(call_result.call_id), "status": "pending_approval", "expires_at": expires_at}
        if call_result.refusal is not None and call_result.refusal.needs_superuser:
            body["message"] = call_result.message
        return RestResponse(202, body, _build_headers(call_result))
    if call_result.status == "unauthenticated":
        return RestResponse(
            401, _build_error_body("Unauthorized", call_result.message, call_result.reason), build_challenge_headers()
        )
    if not call_result.tool_is_visible:
        # A tool that the caller has no grant for is answered like a tool that does not exist.
        return RestResponse(
            404, _build_error_body("NotFound", NOT_FOUND_MESSAGE, "not_found"), _build_headers(call_result)
        )
    return _render_refusal(call_result)


def parse_call_body(body: Any) -> CallBody:
    """Return the arguments and the context of the call."""
    if not isinstance(body, dict):
        raise InvalidInput("Send a JSON object with parameters.")
    problems = [FieldError(name, "There is no such field.") for name in body if name not in {"parameters", "context"}]
    parameters, context_fields = body.get("parameters"), body.get("context") or {}
    if "parameters" not in body:
        problems.append(FieldError("parameters", "This is required; {} for a tool that takes nothing."))
    elif not isinstance(parameters, dict):
        problems.append(FieldError("parameters", "Give a JSON object."))
    if not isinstance(context_fields, dict):
        problems.append(FieldError("context", "Give a JSON object."))
        context_fields = {}
    problems += _find_context_problems(context_fields)
    if problems:
        first = problems[0]
        raise InvalidInput(f"{first.field}: {first.message}", fields=problems)
    assert isinstance(parameters, dict)  # checked above
    return {"arguments": parameters, "context": build_call_context(context_fields)}


def describe_invalid_body(error: InvalidInput) -> CallBody:
    """Return what a call carries whose body could not be parsed."""
    problem_fields = tuple((field_error.field, field_error.message) for field_error in error.fields)
    return {"arguments": {}, "problem": error.message, "problem_fields": problem_fields}


def build_call_context(fields: Mapping[str, str | None]) -> CallContext:
    """Build the context of a call as it is recorded, for MCP and REST."""
    return CallContext(**{RECORD_FIELD_NAMES.get(name, name): value or "" for name, value in fields.items()})


def render_tool_result(result: dict[str, Any] | None) -> dict[str, Any]:
    """Return an MCP result with the field names and the fields of REST."""
    mcp_result = result or {}
    body: dict[str, Any] = {"content": mcp_result.get("content") or []}
    if "structuredContent" in mcp_result:
        body["structured_content"] = mcp_result["structuredContent"]
    return body


def build_challenge_headers(has_token: bool = True) -> dict[str, str]:
    error = 'error="invalid_token", ' if has_token else ""
    return {"WWW-Authenticate": f'Bearer {error}resource_metadata="{settings.PUBLIC_URL}{oauth.REST_METADATA_PATH}"'}


def _render_refusal(call_result: CallResult) -> RestResponse:
    details: dict[str, Any] = {}
    if call_result.reason == "tool_error":
        details["result"] = render_tool_result(call_result.result)
    if call_result.retry_after is not None:
        details["retry_after"] = call_result.retry_after
    if call_result.refusal is not None and call_result.refusal.breaker_scope:
        details["breaker"] = {"scope": call_result.refusal.breaker_scope}
    if call_result.call_id is not None and call_result.recorded:
        details["call_id"] = str(call_result.call_id)
    code = call_result.error_code or "Unauthorized"
    body = _build_error_body(code, call_result.message, call_result.reason, details, call_result.fields)
    return RestResponse(outcome_of(call_result.reason).rest_status, body, _build_headers(call_result))


def _build_headers(call_result: CallResult) -> dict[str, str]:
    quota = call_result.quota
    values = {
        "X-Call-ID": call_result.call_id if call_result.recorded else None,
        "Retry-After": call_result.retry_after,
        "RateLimit-Remaining": quota.remaining if quota else None,
        "RateLimit-Reset": quota.reset if quota else None,
    }
    return {name: str(value) for name, value in values.items() if value is not None}


def _build_error_body(
    code: str, message: str, reason: str, details: dict[str, Any] | None = None,
    fields: tuple[tuple[str, str], ...] = (),
) -> dict[str, Any]:  # fmt: skip
    field_problems = [{"field": name, "message": problem} for name, problem in fields]
    return {
        "error_code": code,
        "message": message,
        "details": {**(details or {}), "reason": reason, "fields": field_problems},
        "request_id": str(context.current().request_id),
    }


def _find_context_problems(context_fields: dict[str, Any]) -> list[FieldError]:
    problems = []
    for name, value in context_fields.items():
        field_name, max_chars = f"context.{name}", CONTEXT_FIELDS.get(name)
        if max_chars is None:
            problems.append(FieldError(field_name, "There is no such field."))
        elif value is not None and not isinstance(value, str):
            problems.append(FieldError(field_name, "Give a text."))
        elif value is not None and len(value) > max_chars:
            problems.append(FieldError(field_name, f"Use at most {max_chars} characters."))
    return problems
