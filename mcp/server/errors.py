"""Protocol and HTTP error responses: an HTTP status and a JSON-RPC error."""

from dataclasses import dataclass, field, replace
from typing import Any

from common.asgi.headers import HeaderPairs

PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS, INTERNAL_ERROR = -32700, -32600, -32601, -32602, -32603
HEADER_MISMATCH, MISSING_CAPABILITY, UNSUPPORTED_VERSION = -32020, -32021, -32022
#: The specification fixes these. Every other code has the status 200.
HTTP_STATUS = {
    PARSE_ERROR: 400,
    INVALID_REQUEST: 400,
    INVALID_PARAMS: 400,
    HEADER_MISMATCH: 400,
    MISSING_CAPABILITY: 400,
    UNSUPPORTED_VERSION: 400,
    METHOD_NOT_FOUND: 404,
}
RequestId = str | int


@dataclass(frozen=True, slots=True)
class ErrorResponse:
    """An HTTP response whose body is a JSON-RPC error."""

    status: int
    code: int
    message: str
    data: dict[str, Any] = field(default_factory=dict)
    id: RequestId | None = None
    headers: HeaderPairs = ()

    def with_id(self, request_id: RequestId | None) -> "ErrorResponse":
        return replace(self, id=request_id)

    @property
    def envelope(self) -> dict[str, Any]:
        error: dict[str, Any] = {"code": self.code, "message": self.message}
        if self.data:
            error["data"] = self.data
        return {"jsonrpc": "2.0", "id": self.id, "error": error}


def protocol_error(code: int, message: str, **data: Any) -> ErrorResponse:
    """Build a JSON-RPC error with the HTTP status of its code."""
    return ErrorResponse(HTTP_STATUS.get(code, 200), code, message, data)


def http_error(status: int, message: str, *headers: tuple[bytes, bytes], **data: Any) -> ErrorResponse:
    """Build an error for a request without a message. Its code is the HTTP status, outside the range of JSON-RPC."""
    return ErrorResponse(status, status, message, data, headers=headers)
