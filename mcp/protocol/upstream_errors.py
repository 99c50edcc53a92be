"""Errors of calls to upstream servers: no usable answer (`UpstreamFault`), or an error answer (`UpstreamError`)."""

from typing import Any, Literal

from mcp_types.jsonrpc import INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND

FaultCode = Literal[
    "unreachable", "timeout", "closed", "protocol", "http_status", "too_large", "auth", "not_running", "unsupported",
]  # fmt: skip
#: Error codes that blame the request. -32002: resource not found, before 2026-07-28; -32021: the client lacks a
#: capability.
CALLER_FAULT_CODES = frozenset({INVALID_REQUEST, INVALID_PARAMS, METHOD_NOT_FOUND, -32002, -32021})


class UpstreamFailure(Exception):
    """A request to a server failed: no usable answer (`UpstreamFault`) or an error answer (`UpstreamError`)."""

    def __init__(self, text: str, status: int) -> None:
        super().__init__(text)
        #: The HTTP status of the response, 0 for none.
        self.status = status
        #: The steps of the handshake before the failure.
        self.steps: tuple[str, ...] = ()


class UpstreamFault(UpstreamFailure):
    """The server returned no usable answer."""

    def __init__(self, code: FaultCode, detail: str, *, sent: bool, status: int = 0) -> None:
        super().__init__(f"{code}: {detail}", status)
        self.code: FaultCode = code
        #: One sentence for admins. It may contain text from the server, so it is redacted before storage and display.
        self.detail = detail
        #: Whether the call may have had an effect: false only if its bytes were certainly not sent, or were refused.
        self.sent = sent

    @property
    def is_own(self) -> bool:
        """Whether Gatehouse caused the fault: its stdio host is not running, or it lacks a feature."""
        return self.code in {"not_running", "unsupported"}

    @property
    def is_connection_fault(self) -> bool:
        """Whether the connection failed: unreachable, closed, or HTTP 5xx. Arguments do not cause these faults."""
        return self.code in {"unreachable", "closed"} or (self.code == "http_status" and self.status >= 500)


class UpstreamError(UpstreamFailure):
    """The server answered with a JSON-RPC error."""

    def __init__(self, code: int, message: str, data: Any = None, *, status: int = 0) -> None:
        super().__init__(f"{code}: {message}", status)
        self.code = code
        self.message = message
        self.data = data

    @property
    def blames_caller(self) -> bool:
        """Whether the error code blames the request. Every other code counts as a fault of the server."""
        return self.code in CALLER_FAULT_CODES
