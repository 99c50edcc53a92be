"""`grpc.health.v1.Health`, for probes of orchestrators. Its messages are one field each."""

from collections.abc import Callable
from typing import Any

import grpc

CHECK = "/grpc.health.v1.Health/Check"
SERVING, NOT_SERVING = b"\x08\x01", b"\x08\x02"


class Health(grpc.GenericRpcHandler):  # type: ignore[type-arg]  # generic in its stubs alone
    """The answer is the same for every service: they share their process and its fate."""

    def __init__(self, is_serving: Callable[[], bool]) -> None:
        self._is_serving = is_serving
        self._handler = grpc.unary_unary_rpc_method_handler(self._check)

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> "grpc.RpcMethodHandler[bytes, bytes] | None":
        return self._handler if handler_call_details.method == CHECK else None

    async def _check(self, _message: bytes, _context: Any) -> bytes:
        return SERVING if self._is_serving() else NOT_SERVING
