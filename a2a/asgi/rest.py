"""The HTTP binding around operations: paths and queries in, results as they are, errors as Google writes them."""

from typing import Any

from a2a.asgi import paths, versions
from a2a.asgi.calls import Call, Unread, Wrapping
from a2a.asgi.heads import A2A_JSON, JSON, Head
from a2a.wire.faults import Fault, Kind
from a2a.wire.v03 import errors
from common import strict_json
from common.strict_json import StrictJsonError

TRANSPORT = "http_json"
MEDIA = frozenset({JSON, A2A_JSON})
UNSUPPORTED_MEDIA = 415


def read(method: str, rest: str, head: Head, query: dict[str, str], body: bytes, *, said_version: str) -> Call:
    wrapping = wrapped(head, paths.version_of(rest))
    found = paths.route(method, rest)
    if not isinstance(found, paths.Found):
        said = "This path does not take this method." if found else "There is nothing here that you can see."
        raise Unread(Fault(Kind.METHOD_NOT_FOUND if found else Kind.NOT_FOUND, said), wrapping, allow=found)
    operation, dialect = found.operation.name, versions.HTTP[found.version]
    try:
        # What is sent in a type of its own is not looked into.
        given = {**query, **_sent(head, body), **found.fields}
        versions.require(said_version, found.version)
        return Call(operation, found.version, dialect.read(operation, given), dialect, wrapping, TRANSPORT)
    except Fault as fault:
        raise Unread(fault, wrapping) from fault


def wrapped(head: Head, version: str = versions.CURRENT) -> Wrapping:
    error = errors.write_rest if version == versions.OLD else _error
    return Wrapping(
        lambda told: told,
        error,
        _old_status if version == versions.OLD else _status,
        A2A_JSON if head.wants_a2a_json else JSON,
    )


def _old_status(fault: Fault) -> int:
    return fault.kind.value.http


def _status(fault: Fault) -> int:
    """1.0.1 says 400 for a type that is not taken; HTTP has a status for just that, which the TCK demands."""
    return UNSUPPORTED_MEDIA if fault.kind is Kind.CONTENT_TYPE else fault.kind.value.http


def _error(fault: Fault) -> dict[str, Any]:
    names = fault.kind.value
    told = {"code": _status(fault), "status": names.grpc, "message": fault.message, "details": fault.details_as_any()}
    return {"error": told}


def _sent(head: Head, body: bytes) -> dict[str, Any]:
    if not body:
        return {}
    if head.media not in MEDIA:
        raise Fault(Kind.CONTENT_TYPE, f"Send {JSON} or {A2A_JSON}.")
    try:
        sent = strict_json.loads(body)
    except StrictJsonError as problem:
        raise Fault(Kind.INVALID_REQUEST, str(problem)) from problem
    if not isinstance(sent, dict):
        raise Fault(Kind.INVALID_REQUEST, "Send an object.")
    return sent
