"""An A2A server over gRPC alone that does as it is told, in both versions.

far.on["SendMessage"] = [status("UNAVAILABLE"), said({"task": task("working")})]

The last answer of a list stays. Each answer is a function of the method, what it was asked and the call's context.
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc

from a2a.grpc_door import refusals
from a2a.wire.faults import Fault, Kind
from a2a.wire.protobuf import Rpc, as_json, as_message
from a2a.wire.v03 import protobuf as old
from a2a.wire.v1 import protobuf as new

Answer = Callable[[Rpc, dict[str, Any], Any], AsyncIterator[bytes]]
RPCS = {rpc.path: rpc for rpc in (*new.RPCS, *old.RPCS)}


@dataclass
class Asked:
    rpc: Rpc
    body: dict[str, Any]
    metadata: dict[str, str]


@dataclass
class FarRpc(grpc.GenericRpcHandler):  # type: ignore[type-arg]  # generic in its stubs alone
    port: int = 0
    asked: list[Asked] = field(default_factory=list)
    on: dict[str, list[Answer]] = field(default_factory=dict)
    loop: asyncio.AbstractEventLoop = field(init=False)

    @property
    def place(self) -> str:
        return f"127.0.0.1:{self.port}"

    def named(self, operation: str) -> list[Asked]:
        return [one for one in self.asked if one.rpc.operation == operation]

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:
        rpc = RPCS[handler_call_details.method]
        metadata = {name: value for name, value in handler_call_details.invocation_metadata if isinstance(value, str)}

        async def stream(raw: bytes, context: Any) -> AsyncIterator[bytes]:
            body = as_json(rpc.request.FromString(raw))
            self.asked.append(Asked(rpc, body, metadata))
            left = self.on.get(rpc.operation) or [status("UNIMPLEMENTED")]
            async for message in (left.pop(0) if len(left) > 1 else left[0])(rpc, body, context):
                yield message

        async def one(raw: bytes, context: Any) -> bytes:
            return await anext(stream(raw, context))

        return grpc.unary_stream_rpc_method_handler(stream) if rpc.streams else grpc.unary_unary_rpc_method_handler(one)


@contextmanager
def far_rpc() -> Iterator[FarRpc]:
    far, ready, over = FarRpc(), threading.Event(), asyncio.Event()

    async def live() -> None:
        server = grpc.aio.server(handlers=[far])
        far.port, far.loop = server.add_insecure_port("127.0.0.1:0"), asyncio.get_running_loop()
        await server.start()
        ready.set()
        await over.wait()
        await server.stop(None)

    thread = threading.Thread(target=asyncio.run, args=(live(),), daemon=True)
    thread.start()
    assert ready.wait(5)
    yield far
    far.loop.call_soon_threadsafe(over.set)
    thread.join(5)


def said(*values: Any, then: Answer | None = None) -> Answer:
    """In the JSON of the version that is asked."""

    async def answer(rpc: Rpc, body: dict[str, Any], context: Any) -> AsyncIterator[bytes]:
        for value in values:
            yield as_message(value, rpc.response).SerializeToString()
        if then is not None:
            async for message in then(rpc, body, context):
                yield message

    return answer


def raw(*messages: bytes) -> Answer:
    async def answer(_rpc: Rpc, _body: dict[str, Any], _context: Any) -> AsyncIterator[bytes]:
        for message in messages:
            yield message

    return answer


def status(name: str, words: str = "", *trailers: tuple[str, str | bytes]) -> Answer:
    async def answer(_rpc: Rpc, _body: dict[str, Any], context: Any) -> AsyncIterator[bytes]:
        await context.abort(grpc.StatusCode[name], words, trailers)
        yield b""

    return answer


def fault(kind: Kind, words: str) -> Answer:
    """As a server tells it that knows the protocol."""

    async def answer(rpc: Rpc, _body: dict[str, Any], context: Any) -> AsyncIterator[bytes]:
        await refusals.refuse(context, Fault(kind, words), version=rpc.version, request_id="")
        yield b""

    return answer


async def hang(_rpc: Rpc, _body: dict[str, Any], _context: Any) -> AsyncIterator[bytes]:
    await asyncio.Event().wait()
    yield b""
