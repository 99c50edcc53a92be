"""JSON-RPC around operations: which one is asked for, and how answers and faults are wrapped."""

from functools import partial
from typing import Any

from a2a.asgi import versions
from a2a.asgi.calls import Call, Unread, Wrapping
from a2a.operations.table import OLD_NAMES, OPERATIONS
from a2a.wire.faults import Fault, Kind
from a2a.wire.v03 import errors
from common import strict_json
from common.strict_json import StrictJsonError

TRANSPORT = "json_rpc"
RequestId = str | int | float | None
#: Faults that are about the request as such: proxies and clients' libraries see them by the status too.
BY_STATUS = frozenset(
    {Kind.UNAUTHENTICATED, Kind.FORBIDDEN, Kind.NOT_FOUND, Kind.TOO_LARGE, Kind.LIMITED, Kind.UNAVAILABLE}
)


def read(body: bytes, *, said_version: str) -> Call:
    sent = _sent(body)
    wrapping = wrapped(_id(sent))
    try:
        operation, version = _named(sent, said_version)
        wrapping = wrapped(_id(sent), version)
        params = sent.get("params")
        if params is not None and not isinstance(params, dict):
            raise Fault(Kind.INVALID_PARAMS, "params: Give an object.", [("params", "Give an object.")])
        dialect = versions.RPC[version]
        return Call(operation, version, dialect.read(operation, params or {}), dialect, wrapping, TRANSPORT)
    except Fault as fault:
        raise Unread(fault, wrapping) from fault


def wrapped(request_id: RequestId = None, version: str = versions.CURRENT) -> Wrapping:
    error = _old_error if version == versions.OLD else _error
    return Wrapping(partial(_result, request_id), partial(error, request_id), status)


def status(fault: Fault) -> int:
    return fault.kind.value.http if fault.kind in BY_STATUS else 200


def _result(request_id: RequestId, told: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": request_id, "result": told}


def _error(request_id: RequestId, fault: Fault) -> dict[str, Any]:
    told = {"code": fault.kind.value.jsonrpc, "message": fault.message, "data": fault.details_as_any()}
    return {"jsonrpc": "2.0", "id": request_id, "error": told}


def _old_error(request_id: RequestId, fault: Fault) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": request_id, "error": errors.write_jsonrpc(fault)}


def _sent(body: bytes) -> dict[str, Any]:
    try:
        sent = strict_json.loads(body)
    except StrictJsonError as problem:
        raise Unread(Fault(Kind.PARSE, str(problem)), wrapped()) from problem
    if isinstance(sent, list):
        raise Unread(Fault(Kind.INVALID_REQUEST, "Send one request at a time; batches are not taken."), wrapped())
    if not isinstance(sent, dict):
        raise Unread(Fault(Kind.INVALID_REQUEST, "Send a JSON-RPC request, which is an object."), wrapped())
    return sent


def _id(sent: dict[str, Any]) -> RequestId:
    found = sent.get("id")
    if found is None or (isinstance(found, str | int | float) and not isinstance(found, bool)):
        return found
    raise Unread(Fault(Kind.INVALID_REQUEST, "id: Give a text or a number."), wrapped())


def _named(sent: dict[str, Any], said_version: str) -> tuple[str, str]:
    """The operation, and the version that its name belongs to."""
    method = sent.get("method")
    if sent.get("jsonrpc") != "2.0" or not isinstance(method, str):
        raise Fault(Kind.INVALID_REQUEST, 'Send {"jsonrpc": "2.0", "id": …, "method": …, "params": {…}}.')
    if method in OPERATIONS:
        versions.require(said_version, versions.CURRENT)
        return method, versions.CURRENT
    if method in OLD_NAMES:
        versions.require(said_version, versions.OLD)
        return OLD_NAMES[method].name, versions.OLD
    raise Fault(Kind.METHOD_NOT_FOUND, f"There is no method {method[:100]!r} here.")
