"""Refusals on the wire: one envelope, and one table from the facts that errors name to it."""

import logging
import math
from dataclasses import dataclass
from typing import Any

from django.core.exceptions import RequestDataTooBig, SuspiciousOperation
from django.db import InterfaceError, OperationalError
from django.http import Http404
from django.http import JsonResponse as PlainResponse
from rest_framework import exceptions
from rest_framework.response import Response

from common import context
from common.errors import FieldError, GatehouseError, InvalidInput, NotFound, PayloadTooLarge

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Answer:
    error_code: str
    status: int


INTERNAL = Answer("InternalError", 500)
#: By an error's stable code; a class without a line of its own is answered like the nearest class above it.
ANSWERS: dict[str, Answer] = {
    "invalid": Answer("InvalidParameters", 400),
    "egress_blocked": Answer("InvalidParameters", 400),
    "session_required": Answer("InvalidParameters", 400),
    "too_large": Answer("TooLarge", 413),
    "unauthenticated": Answer("Unauthorized", 401),
    "sign_in_refused": Answer("Unauthorized", 401),
    "not_allowed": Answer("Unauthorized", 403),
    "not_found": Answer("NotFound", 404),
    "session_not_found": Answer("NotFound", 404),
    "conflict": Answer("Conflict", 409),
    "limited": Answer("RateLimitExceeded", 429),
    "upstream": Answer("ExecutionFailed", 502),
    "breaker_open": Answer("ExecutionFailed", 503),
    "queue_full": Answer("ExecutionFailed", 503),
    "overloaded": Answer("ExecutionFailed", 503),
    "stopping": Answer("ExecutionFailed", 503),
    "record_unavailable": Answer("InternalError", 503),
    "database_unavailable": Answer("InternalError", 503),
}
#: What the framework raises: the answer, and the reason that stands beside it.
FRAMEWORK: dict[type[exceptions.APIException], tuple[Answer, str]] = {
    exceptions.ParseError: (Answer("InvalidParameters", 400), "bad_json"),
    exceptions.UnsupportedMediaType: (Answer("InvalidParameters", 400), "unsupported_media_type"),
    exceptions.MethodNotAllowed: (Answer("InvalidParameters", 405), "method_not_allowed"),
    exceptions.NotAuthenticated: (Answer("Unauthorized", 401), "no_credential"),
    exceptions.AuthenticationFailed: (Answer("Unauthorized", 401), "no_credential"),
    exceptions.PermissionDenied: (Answer("Unauthorized", 403), "not_allowed"),
    exceptions.Throttled: (Answer("RateLimitExceeded", 429), "limited"),
}
SAYS = {
    "unsupported_media_type": "Send JSON, as application/json.",
    "method_not_allowed": "This path does not take this method.",
    "no_credential": "Send a credential: Authorization: Bearer nhi_…",
    "not_allowed": "You may not do this.",
}


def handle(error: Exception, handler_context: dict[str, Any]) -> Response:
    """The framework's exception handler: whatever was raised, one envelope, and no trace of ours in it."""
    gatehouse_error, answer, reason = understood(error)
    response = Response(body(gatehouse_error, answer, reason), status=answer.status)
    if answer.status == 401:
        response["WWW-Authenticate"] = handler_context["view"].get_authenticate_header(handler_context["request"])
    if retry_after := gatehouse_error.details.get("retry_after"):
        response["Retry-After"] = str(retry_after)
    return response


def plain(error: GatehouseError) -> PlainResponse:
    """The same envelope where no view of the API answers."""
    gatehouse_error, answer, reason = understood(error)
    return PlainResponse(body(gatehouse_error, answer, reason), status=answer.status)


def understood(error: Exception) -> tuple[GatehouseError, Answer, str]:
    """What happened, as an error of ours; how it is answered; the reason that stands in the details."""
    if isinstance(error, GatehouseError):
        return error, answer_for(type(error)), str(error.details.get("reason", error.code))
    if isinstance(error, exceptions.ValidationError):
        return understood(invalid(error.detail))
    if isinstance(error, Http404 | exceptions.NotFound):
        return understood(NotFound())
    if isinstance(error, SuspiciousOperation):
        return understood(_suspicious(error))
    if isinstance(error, exceptions.APIException):
        return _framework(error)
    return _ours(error)


def answer_for(kind: type[GatehouseError]) -> Answer:
    for base in kind.__mro__:
        code = base.__dict__.get("code")
        if code in ANSWERS:
            return ANSWERS[code]
    return INTERNAL


def answer_to(code: str) -> Answer:
    """The same for an error that only left its code, as an item of a bulk verb does."""
    kinds = [GatehouseError]
    while kinds:
        kind = kinds.pop()
        if kind.__dict__.get("code") == code:
            return answer_for(kind)
        kinds.extend(kind.__subclasses__())
    return INTERNAL


def body(error: GatehouseError, answer: Answer, reason: str) -> dict[str, Any]:
    fields = [{"field": field_error.field, "message": field_error.message} for field_error in error.fields]
    return {
        "error_code": answer.error_code,
        "message": error.message,
        "details": {**error.details, "reason": reason, "fields": fields},
        "request_id": str(context.current().request_id),
    }


def invalid(detail: Any) -> InvalidInput:
    """The framework's tree of problems as ours: a dotted field name for each, all of them said at once."""
    field_errors = _flat(detail, "")
    first = field_errors[0]
    more = f" And {len(field_errors) - 1} more." if len(field_errors) > 1 else ""
    prefix = f"{first.field}: " if first.field else ""
    return InvalidInput(f"{prefix}{first.message}{more}", fields=field_errors)


def _flat(detail: Any, field_name: str) -> list[FieldError]:
    if isinstance(detail, dict):
        return [
            field_error for name, inner in detail.items() for field_error in _flat(inner, _below(field_name, str(name)))
        ]
    if isinstance(detail, list):
        return [field_error for inner in detail for field_error in _flat(inner, field_name)]
    return [FieldError(field_name, str(detail))]


def _below(field_name: str, name: str) -> str:
    if name == "non_field_errors":
        return field_name
    return f"{field_name}.{name}" if field_name else name


def _suspicious(error: SuspiciousOperation) -> GatehouseError:
    return (
        PayloadTooLarge(1024 * 1024)
        if isinstance(error, RequestDataTooBig)
        else InvalidInput("The request is malformed.")
    )


def _framework(error: exceptions.APIException) -> tuple[GatehouseError, Answer, str]:
    answer, reason = next(
        (FRAMEWORK[kind] for kind in type(error).__mro__ if kind in FRAMEWORK),
        (Answer("InvalidParameters", 400) if error.status_code < 500 else INTERNAL, error.default_code),
    )
    wait = getattr(error, "wait", None)
    details = {} if wait is None else {"retry_after": max(1, math.ceil(wait))}
    return GatehouseError(SAYS.get(reason, str(error.default_detail)), details=details), answer, reason


def _ours(error: Exception) -> tuple[GatehouseError, Answer, str]:
    if isinstance(error, OperationalError | InterfaceError):
        log.warning("the database is away", exc_info=error)
        message = "The database cannot be reached, so nothing was done."
        return GatehouseError(message), Answer("InternalError", 503), "database_unavailable"
    log.error("unexpected", exc_info=error)
    return GatehouseError("Something went wrong here. Name the request id when you report it."), INTERNAL, "unexpected"
