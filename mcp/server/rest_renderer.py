"""The gateway's outcomes in the words of REST: one table to statuses, for every door that answers in JSON."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from django.conf import settings

from common import context
from common.errors import FieldError, InvalidInput
from mcp.gateway.gateway import CallContext, Outcome
from mcp.server.request_parser import CONTEXT_FIELDS
from nhi.authorization import oauth
from nhi.choices import CallStatus

#: By the reason of a call that came to nothing; what is not named here is a refusal, 403.
STATUS: dict[str, int] = {
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
NOTHING_HERE = "There is nothing here that you can see."
#: What the record calls otherwise than its callers do.
KEPT_AS = {"conversation_id": "thread_id"}


@dataclass(frozen=True)
class Reply:
    status: int
    body: dict[str, Any]
    headers: dict[str, str] = field(default_factory=dict)


def answer(outcome: Outcome) -> Reply:
    if outcome.status == CallStatus.SUCCESS:
        body = {"call_id": str(outcome.call_id), "result": shown(outcome.result), "latency_ms": outcome.latency_ms}
        return Reply(200, body, _headers(outcome))
    if outcome.status == "pending_approval":
        ends = outcome.expires_at.isoformat().replace("+00:00", "Z") if outcome.expires_at else None
        body = {"call_id": str(outcome.call_id), "status": "pending_approval", "expires_at": ends}
        if outcome.needs_superuser:
            body["message"] = outcome.message
        return Reply(202, body, _headers(outcome))
    if outcome.status == "unauthenticated":
        return Reply(401, _envelope("Unauthorized", outcome.message, outcome.reason), challenge())
    if not outcome.held:
        # What exists and was never this caller's is told like what does not exist.
        return Reply(404, _envelope("NotFound", NOTHING_HERE, "not_found"), _headers(outcome))
    return _refused(outcome)


def read_call(body: Any) -> tuple[dict[str, Any], CallContext]:
    """The arguments, and what the caller says around them."""
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
    problems += _context_problems(around)
    if problems:
        first = problems[0]
        raise InvalidInput(f"{first.field}: {first.message}", fields=problems)
    assert isinstance(parameters, dict)  # checked above
    return parameters, circumstances(around)


def circumstances(said: Mapping[str, str | None]) -> CallContext:
    """What a caller says around its call, at any door, as it is kept."""
    return CallContext(**{KEPT_AS.get(name, name): value or "" for name, value in said.items()})


def shown(result: dict[str, Any] | None) -> dict[str, Any]:
    """An MCP result in snake case, with what REST promises of it."""
    given = result or {}
    found: dict[str, Any] = {"content": given.get("content") or []}
    if "structuredContent" in given:
        found["structured_content"] = given["structuredContent"]
    return found


def challenge(refused: bool = True) -> dict[str, str]:
    error = 'error="invalid_token", ' if refused else ""
    return {"WWW-Authenticate": f'Bearer {error}resource_metadata="{settings.PUBLIC_URL}{oauth.REST_METADATA_PATH}"'}


def _refused(outcome: Outcome) -> Reply:
    status = STATUS.get(outcome.reason, 403)
    details: dict[str, Any] = {}
    if outcome.reason == "tool_error":
        details["result"] = shown(outcome.result)
    if outcome.retry_after is not None:
        details["retry_after"] = outcome.retry_after
    if outcome.breaker_scope:
        details["breaker"] = {"scope": outcome.breaker_scope}
    if outcome.call_id is not None and outcome.recorded:
        details["call_id"] = str(outcome.call_id)
    code = outcome.error_code or "Unauthorized"
    body = _envelope(code, outcome.message, outcome.reason, details, outcome.fields)
    return Reply(status, body, _headers(outcome))


def _headers(outcome: Outcome) -> dict[str, str]:
    said = {
        "X-Call-ID": outcome.call_id if outcome.recorded else None,
        "Retry-After": outcome.retry_after,
        "RateLimit-Remaining": outcome.remaining,
        "RateLimit-Reset": outcome.reset,
    }
    return {name: str(value) for name, value in said.items() if value is not None}


def _envelope(
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


def _context_problems(around: dict[str, Any]) -> list[FieldError]:
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
