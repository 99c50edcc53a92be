"""The gRPC server with scripted operations behind it, and a client in front, on one loop."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import grpc
from google.protobuf.message import Message
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status

from a2a.grpc_door.door import Door
from a2a.grpc_door.serving import Certificate, Serving
from a2a.operations.asking import Asked
from a2a.operations.following import Item
from a2a.operations.visits import Shown
from a2a.wire import protobuf
from a2a.wire.protobuf import Rpc
from a2a.wire.v03 import protobuf as old
from a2a.wire.v1 import protobuf as new
from nhi.credentials import tokens

TOKEN = tokens.make_credential_token("agt").token
WRITER = (("authorization", f"Bearer {TOKEN}"), ("x-gatehouse-agent", "writer"))
NEW = {rpc.operation: rpc for rpc in new.RPCS}
OLD = {rpc.operation: rpc for rpc in old.RPCS}
Metadata = Sequence[tuple[str, str]]
LONGEST = 10.0
TASK = {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_WORKING"}}
DONE = {"taskId": "t", "contextId": "c", "status": {"state": "TASK_STATE_COMPLETED"}}


@dataclass
class Scripted:
    """Operations that note what they are asked and answer as they are told to."""

    answers: deque[Any] = field(default_factory=deque)
    asked: list[Asked] = field(default_factory=list)
    items: Sequence[Any] = ()
    #: What is awaited before an answer, or after the items.
    patience: Callable[[], Awaitable[Any]] | None = None
    admitted: list[Shown] = field(default_factory=list)
    begun: asyncio.Event = field(default_factory=asyncio.Event)
    closed: asyncio.Event = field(default_factory=asyncio.Event)

    async def admit(self, agent: str, shown: Shown, source: str, request_id: UUID) -> None:
        self.admitted.append(shown)

    async def answer(self, asked: Asked) -> dict[str, Any]:
        self.asked.append(asked)
        try:
            if self.patience is not None:
                self.begun.set()
                await self.patience()
            found = self.answers.popleft()
            if isinstance(found, Exception):
                raise found
            return dict(found)
        finally:
            self.closed.set()

    async def stream(self, asked: Asked, *, after: int | None = None) -> AsyncGenerator[Item | None, None]:
        assert after is None
        self.asked.append(asked)
        try:
            for number, item in enumerate(self.items, 1):
                if isinstance(item, Exception):
                    raise item
                yield None if item is None else Item(number, item)
            if self.patience is not None:
                self.begun.set()
                await self.patience()
        finally:
            self.closed.set()


@dataclass(frozen=True)
class Refused:
    """A call that came to nothing, as its client sees it."""

    code: grpc.StatusCode
    message: str
    details: Status
    trailers: dict[str, Any]

    def detail(self, kind: type[Message]) -> Any:
        found = kind()
        assert any(one.Unpack(found) for one in self.details.details), f"no {kind.__name__}"
        return found

    @property
    def reason(self) -> str:
        return str(self.detail(ErrorInfo).reason)

    @property
    def fields(self) -> list[str]:
        return [one.field for one in self.detail(BadRequest).field_violations]

    @property
    def wait(self) -> int:
        return int(self.detail(RetryInfo).retry_delay.seconds)


@dataclass
class Client:
    channel: grpc.aio.Channel

    async def ask(self, rpc: Rpc, params: Any, metadata: Metadata = WRITER, **more: Any) -> Any:
        """The answer's JSON; raises what grpc raises."""
        return await self.send(rpc, protobuf.as_message(params, rpc.request).SerializeToString(), metadata, **more)

    async def send(self, rpc: Rpc, message: bytes, metadata: Metadata = WRITER, **more: Any) -> Any:
        call: Any = self.channel.unary_unary(rpc.path)
        answer = await call(message, metadata=metadata, **{"timeout": LONGEST, **more})
        return protobuf.as_json(rpc.response.FromString(answer))

    def follow(self, rpc: Rpc, params: Any, metadata: Metadata = WRITER, **more: Any) -> Any:
        call: Any = self.channel.unary_stream(rpc.path, response_deserializer=rpc.response.FromString)
        message = protobuf.as_message(params, rpc.request).SerializeToString()
        return call(message, metadata=metadata, **{"timeout": LONGEST, **more})

    async def items(self, rpc: Rpc, params: Any, metadata: Metadata = WRITER) -> list[Any]:
        return [protobuf.as_json(one) async for one in self.follow(rpc, params, metadata)]

    async def refused(self, asked: Awaitable[Any]) -> Refused:
        try:
            answer = await asked
        except grpc.aio.AioRpcError as error:
            return refused_by(error)
        raise AssertionError(f"It was not refused: {answer}")


def refused_by(error: grpc.aio.AioRpcError) -> Refused:
    trailers: dict[str, Any] = dict(error.trailing_metadata() or ())
    told = Status.FromString(trailers.get("grpc-status-details-bin", b""))
    return Refused(error.code(), error.details() or "", told, trailers)


@asynccontextmanager
async def served(
    operations: Scripted, *, usual: str = "", certificate: Certificate | None = None
) -> AsyncIterator[tuple[Serving, Client]]:  # fmt: skip
    serving = Serving(Door(operations, usual=usual), address="127.0.0.1", port=0, certificate=certificate)
    await serving.server.start()
    try:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{serving.port}") as channel:
            yield serving, Client(channel)
    finally:
        await serving.server.stop(0)
