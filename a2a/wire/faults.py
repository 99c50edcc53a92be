"""What can go wrong with an operation, and what each binding calls it: one table for all of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

DOMAIN = "a2a-protocol.org"


@dataclass(frozen=True)
class Names:
    """A fault's code in JSON-RPC, its status in HTTP, its status in gRPC, and its reason where details are told."""

    jsonrpc: int
    http: int
    grpc: str
    reason: str


class Kind(Enum):
    """A2A 1.0.1, 5.4, and what JSON-RPC and HTTP add."""

    TASK_NOT_FOUND = Names(-32001, 404, "NOT_FOUND", "TASK_NOT_FOUND")
    TASK_NOT_CANCELABLE = Names(-32002, 400, "FAILED_PRECONDITION", "TASK_NOT_CANCELABLE")
    PUSH_NOT_SUPPORTED = Names(-32003, 400, "FAILED_PRECONDITION", "PUSH_NOTIFICATION_NOT_SUPPORTED")
    UNSUPPORTED = Names(-32004, 400, "FAILED_PRECONDITION", "UNSUPPORTED_OPERATION")
    CONTENT_TYPE = Names(-32005, 400, "INVALID_ARGUMENT", "CONTENT_TYPE_NOT_SUPPORTED")
    INVALID_RESPONSE = Names(-32006, 500, "INTERNAL", "INVALID_AGENT_RESPONSE")
    NO_EXTENDED_CARD = Names(-32007, 400, "FAILED_PRECONDITION", "EXTENDED_AGENT_CARD_NOT_CONFIGURED")
    EXTENSION_REQUIRED = Names(-32008, 400, "FAILED_PRECONDITION", "EXTENSION_SUPPORT_REQUIRED")
    VERSION = Names(-32009, 400, "UNIMPLEMENTED", "VERSION_NOT_SUPPORTED")
    PARSE = Names(-32700, 400, "INVALID_ARGUMENT", "PARSE_ERROR")
    INVALID_REQUEST = Names(-32600, 400, "INVALID_ARGUMENT", "INVALID_REQUEST")
    METHOD_NOT_FOUND = Names(-32601, 404, "UNIMPLEMENTED", "METHOD_NOT_FOUND")
    INVALID_PARAMS = Names(-32602, 400, "INVALID_ARGUMENT", "INVALID_PARAMS")
    INTERNAL = Names(-32603, 500, "INTERNAL", "INTERNAL")
    #: Ours. Those who may not know of an agent are told NOT_FOUND, like those who ask for none that there is.
    NOT_FOUND = Names(-32010, 404, "NOT_FOUND", "NOT_FOUND")
    UNAUTHENTICATED = Names(-32011, 401, "UNAUTHENTICATED", "UNAUTHENTICATED")
    FORBIDDEN = Names(-32012, 403, "PERMISSION_DENIED", "FORBIDDEN")
    CONFLICT = Names(-32013, 409, "ABORTED", "CONFLICT")
    TOO_LARGE = Names(-32014, 413, "RESOURCE_EXHAUSTED", "TOO_LARGE")
    LIMITED = Names(-32015, 429, "RESOURCE_EXHAUSTED", "RATE_LIMITED")
    UNAVAILABLE = Names(-32016, 503, "UNAVAILABLE", "UNAVAILABLE")


@dataclass(eq=False)
class Fault(Exception):
    """Why an operation came to nothing, in no binding's words yet."""

    kind: Kind
    message: str
    #: What is wrong with which field.
    fields: Sequence[tuple[str, str]] = ()
    details: Mapping[str, Any] = field(default_factory=dict)
    #: Seconds after which it may be asked again.
    retry_after: int | None = None

    def __str__(self) -> str:
        return self.message

    def details_as_any(self) -> list[dict[str, Any]]:
        """Google's error details in JSON, which 1.0 carries in every binding."""
        said = {name: str(value) for name, value in self.details.items()}
        info: dict[str, Any] = {
            "@type": "type.googleapis.com/google.rpc.ErrorInfo",
            "reason": self.kind.value.reason,
            "domain": DOMAIN,
            "metadata": said,
        }
        if not self.fields:
            return [info]
        violations = [{"field": name, "description": why} for name, why in self.fields]
        return [info, {"@type": "type.googleapis.com/google.rpc.BadRequest", "fieldViolations": violations}]


def invalid(*fields: tuple[str, str]) -> Fault:
    """One for all that is wrong with the parameters."""
    return Fault(Kind.INVALID_PARAMS, "; ".join(f"{name}: {said}" for name, said in fields), fields)
