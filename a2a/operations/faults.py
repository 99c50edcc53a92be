"""From errors of the product to faults of the protocol: one table, by the error's stable code."""

import logging
from typing import Any

from a2a.wire.faults import Fault, Kind
from common.api import errors
from common.errors import GatehouseError, RateLimited

log = logging.getLogger(__name__)
#: By the code of the nearest class above an error that has a line here.
KINDS: dict[str, Kind] = {
    "invalid": Kind.INVALID_PARAMS,
    "too_large": Kind.TOO_LARGE,
    "unauthenticated": Kind.UNAUTHENTICATED,
    "not_allowed": Kind.FORBIDDEN,
    "not_found": Kind.NOT_FOUND,
    "conflict": Kind.CONFLICT,
    "limited": Kind.LIMITED,
    "egress_blocked": Kind.INVALID_PARAMS,
    "record_unavailable": Kind.UNAVAILABLE,
    "database_unavailable": Kind.UNAVAILABLE,
    "queue_full": Kind.UNAVAILABLE,
    "overloaded": Kind.UNAVAILABLE,
}


def of(error: Exception) -> Fault:
    """What happened, in the protocol's words. What nobody foresaw is logged, and told without a trace of ours."""
    if isinstance(error, Fault):
        return error
    known, answer, reason = errors.understood(error)
    kind = kind_of(type(known)) if isinstance(error, GatehouseError) else None
    if kind is None:
        kind = Kind.UNAVAILABLE if answer.status == 503 else Kind.INTERNAL
    fields = [(one.field, one.message) for one in known.fields]
    details: dict[str, Any] = {**known.details, "reason": reason}
    wait = known.retry_after if isinstance(known, RateLimited) else None
    return Fault(kind, known.message, fields, details, wait)


def kind_of(error: type[GatehouseError]) -> Kind | None:
    for above in error.__mro__:
        code = above.__dict__.get("code")
        if code in KINDS:
            return KINDS[code]
    return None


def task_not_found() -> Fault:
    """Unknown, or not the caller's: the same words for both."""
    return Fault(Kind.TASK_NOT_FOUND, "There is no such task here that you can see.")
