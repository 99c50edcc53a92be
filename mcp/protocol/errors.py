"""What can go wrong with a server's answer: the way to it broke, or it answered with an error of its own."""

from typing import Any, Literal

from mcp_types.jsonrpc import INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND

FaultCode = Literal[
    "unreachable", "timeout", "closed", "protocol", "http_status", "too_large", "auth", "not_running", "unsupported",
]  # fmt: skip
#: Codes by which a server says that the request was wrong. -32002: a resource that is not there, before 2026-07-28;
#: -32021: the client lacks a capability.
CALLER_FAULT_CODES = frozenset({INVALID_REQUEST, INVALID_PARAMS, METHOD_NOT_FOUND, -32002, -32021})


class UpstreamFailure(Exception):
    """Either of the two."""

    def __init__(self, text: str, status: int) -> None:
        super().__init__(text)
        #: The HTTP status that came, 0 for none.
        self.status = status
        #: What a handshake had tried until then.
        self.steps: tuple[str, ...] = ()


class UpstreamFault(UpstreamFailure):
    """No answer that can be used came from the server."""

    def __init__(self, code: FaultCode, detail: str, *, sent: bool, status: int = 0) -> None:
        super().__init__(f"{code}: {detail}", status)
        self.code: FaultCode = code
        #: One sentence for admins. It may hold words of the server's, so it is redacted before it is stored or shown.
        self.detail = detail
        #: Whether the call may have had an effect: false only where its bytes surely never left, or were refused.
        self.sent = sent

    @property
    def is_own(self) -> bool:
        """Whether it happened on the Gatehouse side: its process for stdio servers is away, or it lacks a feature."""
        return self.code in {"not_running", "unsupported"}

    @property
    def is_connection_fault(self) -> bool:
        """Whether the connection failed, which no caller's arguments decide: unreachable, closed, or HTTP 5xx."""
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
        """Whether the server blames the request; every other code counts against the server."""
        return self.code in CALLER_FAULT_CODES
