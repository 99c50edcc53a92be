"""Every method of both services: from bytes to an operation and back."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import aclosing, contextmanager
from functools import partial
from typing import Any, Protocol
from uuid import UUID

import grpc
from google.protobuf.message import DecodeError

from a2a.grpc_door import heads, refusals
from a2a.grpc_door.heads import Head
from a2a.operations.asking import Asked
from a2a.operations.desk import desk
from a2a.operations.following import Item
from a2a.operations.visits import Shown
from a2a.wire.faults import Fault, Kind
from a2a.wire.protobuf import Rpc
from a2a.wire.v03 import protobuf as old
from a2a.wire.v1 import protobuf as new

log = logging.getLogger(__name__)
TRANSPORT = "grpc"
#: Bytes that are looked into in the loop, whoever sent them.
SMALL = 64 * 1024
Context = Any  # grpc's types know the synchronous one
Work = Callable[[Rpc, Head, bytes, Context], Awaitable[bytes | None]]
LEAVING = "This server is about to stop. What was asked for goes on: ask again."


class Operations(Protocol):
    """What `a2a.operations.asking` does."""

    async def admit(self, agent: str, shown: Shown, source: str, request_id: UUID) -> None: ...

    async def answer(self, asked: Asked) -> dict[str, Any]: ...

    def stream(self, asked: Asked, *, after: int | None = None) -> AsyncGenerator[Item | None, None]: ...


class Door(grpc.GenericRpcHandler):  # type: ignore[type-arg]  # generic in its stubs alone
    """`usual` is the agent that is meant by calls that name none."""

    def __init__(self, operations: Operations, *, usual: str = "") -> None:
        self._operations, self._usual = operations, usual
        self._leaving = False
        self._streams: set[asyncio.Task[Any]] = set()
        self._calls: set[asyncio.Task[Any]] = set()
        self._handlers = {rpc.path: self._handler(rpc) for rpc in (*new.RPCS, *old.RPCS)}

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> "grpc.RpcMethodHandler[bytes, bytes] | None":
        return self._handlers.get(handler_call_details.method)

    def leave(self, *, calls: bool = False) -> None:
        """End streams with a word of why; with `calls`, also what would answer once."""
        self._leaving = True
        for task in self._streams | (self._calls if calls else set()):
            task.cancel()

    def _handler(self, rpc: Rpc) -> "grpc.RpcMethodHandler[bytes, bytes]":
        # Bytes in and out: a message that cannot be read is refused in the protocol's words, like any other fault.
        if rpc.streams:
            return grpc.unary_stream_rpc_method_handler(partial(self._serve, rpc, self._stream, self._streams))
        return grpc.unary_unary_rpc_method_handler(partial(self._serve, rpc, self._answer, self._calls))

    async def _serve(
        self, rpc: Rpc, work: Work, busy: "set[asyncio.Task[Any]]", message: bytes, context: Context
    ) -> bytes | None:
        head = heads.read(context.invocation_metadata() or (), context.peer())
        context.set_trailing_metadata((("x-request-id", str(head.request_id)),))
        with _among(busy) as task:
            try:
                return await work(rpc, head, message, context)
            except asyncio.CancelledError:
                if not self._leaving:
                    # The caller went away, or its time is over. The task that it asked for goes on.
                    raise
                task.uncancel()
                fault = Fault(Kind.UNAVAILABLE, LEAVING)
            except Exception as error:
                fault = _understood(error, rpc, head)
        await refusals.refuse(context, fault, version=rpc.version, request_id=str(head.request_id))
        return None

    async def _answer(self, rpc: Rpc, head: Head, message: bytes, _context: Context) -> bytes:
        found = await self._operations.answer(await self._asked(rpc, head, message))
        return rpc.write(found).SerializeToString()

    async def _stream(self, rpc: Rpc, head: Head, message: bytes, context: Context) -> None:
        asked = await self._asked(rpc, head, message)
        async with aclosing(self._operations.stream(asked)) as told:
            async for item in told:
                if item is not None:
                    await context.write(rpc.write_item(item.body).SerializeToString())
                # Until the next one comes, nobody needs it.
                del item

    async def _params(self, rpc: Rpc, head: Head, message: bytes) -> dict[str, Any]:
        """Looking into much is for those whose token holds, and is done beside the loop."""
        if len(message) <= SMALL:
            return rpc.read(_parsed(rpc, message))
        await self._operations.admit("", head.shown(), head.source, head.request_id)
        return await desk.do(lambda: rpc.read(_parsed(rpc, message)))

    async def _asked(self, rpc: Rpc, head: Head, message: bytes) -> Asked:
        head.require_clear()
        head.require_version(rpc.version)
        shown = head.shown()
        params = await self._params(rpc, head, message)
        return Asked(
            operation=rpc.operation,
            agent=head.agent(str(params.pop(heads.TENANT, "")), self._usual),
            shown=shown,
            source=head.source,
            request_id=head.request_id,
            params=params,
            transport=TRANSPORT,
            version=rpc.version,
            idempotency_key=head.values.get("idempotency-key"),
            size=len(message),
        )


@contextmanager
def _among(busy: "set[asyncio.Task[Any]]") -> "Iterator[asyncio.Task[Any]]":
    task = asyncio.current_task()
    assert task is not None  # grpc runs every call in one
    busy.add(task)
    try:
        yield task
    finally:
        busy.discard(task)


def _understood(error: Exception, rpc: Rpc, head: Head) -> Fault:
    if isinstance(error, Fault):
        return error
    log.error("A call of %s failed.", rpc.path, exc_info=error)
    return Fault(Kind.INTERNAL, f"Something went wrong here. It is in the log by its id, {head.request_id}.")


def _parsed(rpc: Rpc, message: bytes) -> Any:
    try:
        return rpc.request.FromString(message)
    except DecodeError as error:
        said = f"This is no {rpc.request.DESCRIPTOR.full_name}."
        raise Fault(Kind.PARSE, said) from error
