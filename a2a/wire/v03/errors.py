"""What 0.3 says where an operation came to nothing: its codes are 1.0's, and it has no form for details."""

from typing import Any

from a2a.wire.faults import Fault, Kind

#: Where a fault's name does not follow from its reason.
NAMES = {
    Kind.NO_EXTENDED_CARD: "AuthenticatedExtendedCardNotConfiguredError",
    Kind.PARSE: "JSONParseError",
}


def name(kind: Kind) -> str:
    """As the official SDKs call it: TASK_NOT_FOUND is a TaskNotFoundError."""
    return NAMES.get(kind, "".join(word.capitalize() for word in kind.value.reason.split("_")) + "Error")


def write_jsonrpc(fault: Fault) -> dict[str, Any]:
    """The `error` of an answer."""
    data = _details(fault)
    said = {"code": fault.kind.value.jsonrpc, "message": fault.message}
    return {**said, "data": data} if data else said


def write_rest(fault: Fault) -> dict[str, Any]:
    """The body that goes with the fault's status."""
    return {"error": name(fault.kind), "message": fault.message, **_details(fault)}


def _details(fault: Fault) -> dict[str, Any]:
    said: dict[str, Any] = {"details": dict(fault.details)} if fault.details else {}
    if fault.fields:
        said["fields"] = [{"field": field, "message": why} for field, why in fault.fields]
    return said
