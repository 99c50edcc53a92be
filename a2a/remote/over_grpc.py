"""gRPC with a remote agent: one request, and its answer or its stream, as JSON of the same protocol buffers."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import Any

import grpc
from google.protobuf.message import DecodeError
from google.rpc.error_details_pb2 import ErrorInfo
from google.rpc.status_pb2 import Status

from a2a import retrying
from a2a.remote import limits, troubles
from a2a.remote.asking import METHODS, Call
from a2a.remote.target import Interface
from a2a.remote.troubles import Code, Trouble
from a2a.wire import protobuf
from a2a.wire.faults import Fault, Kind
from a2a.wire.metadata import DETAILS
from a2a.wire.protobuf import Rpc
from a2a.wire.v03 import protobuf as old
from a2a.wire.v1 import protobuf as new
from common.egress import EgressBlocked, grpc_channels
from common.egress.tracked_body import SentFlag

Metadata = Sequence[tuple[str, str]]
RPCS = {(one.version, one.operation): one for one in (*new.RPCS, *old.RPCS)}
#: What a status means where nothing else is said.
BY_STATUS = {
    grpc.StatusCode.NOT_FOUND: Kind.NOT_FOUND,
    grpc.StatusCode.UNIMPLEMENTED: Kind.METHOD_NOT_FOUND,
    grpc.StatusCode.RESOURCE_EXHAUSTED: Kind.LIMITED,
    grpc.StatusCode.INTERNAL: Kind.INTERNAL,
    grpc.StatusCode.UNKNOWN: Kind.INTERNAL,
    grpc.StatusCode.DATA_LOSS: Kind.INTERNAL,
}
CREDENTIALS = frozenset({grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED})
#: Also what this side says by itself of a connection that broke: then nobody knows what became of the request.
BROKEN = frozenset({grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED})
#: The library's own words, with the status of one who takes no more.
TOO_LARGE = "message larger than max"


async def ask(interface: Interface, call: Call, metadata: Metadata, sent: SentFlag) -> Any:
    async with _opened(interface, call, limits.ANSWER, sent) as (channel, method, body):
        with _told():
            raw = await channel.unary_unary(method.path, None, None)(body, metadata=metadata)
        return _read(method, raw)


async def stream(
    interface: Interface, call: Call, metadata: Metadata, sent: SentFlag, idle: Callable[[], float]
) -> AsyncGenerator[Any, None]:
    """`idle` says how long may be waited for the next."""
    async with _opened(interface, call, limits.EVENT, sent) as (channel, method, body):
        answers = channel.unary_stream(method.path, None, None)(body, metadata=metadata)
        coming = aiter(answers)
        size = 0
        try:
            while (raw := await _next(coming, idle(), sent)) is not None:
                size += len(raw)
                if size > limits.STREAM:
                    raise Trouble(Code.TOO_LARGE, "The remote agent's event stream is too long.", sent=True)
                yield _read(method, raw)
        finally:
            answers.cancel()


@asynccontextmanager
async def _opened(
    interface: Interface, call: Call, largest: int, sent: SentFlag
) -> AsyncIterator[tuple[grpc.aio.Channel, Rpc, bytes]]:
    """A connection is used for one exchange."""
    method = RPCS[interface.version, METHODS["1.0", call.verb]]
    body = _written(method, call)
    async with AsyncExitStack() as stack:
        with _connected():
            channel = await stack.enter_async_context(
                grpc_channels.open_channel(interface.url, max_message_bytes=largest)
            )
        sent.is_set = True
        yield channel, method, body


def _written(method: Rpc, call: Call) -> bytes:
    try:
        return protobuf.as_message(call.body or {}, method.request).SerializeToString()
    except Fault as fault:
        raise Trouble(Code.REFUSED, fault.message.replace("Ask for", "Send")) from fault


@contextmanager
def _connected() -> Iterator[None]:
    try:
        yield
    except EgressBlocked as blocked:
        raise troubles.blocked(blocked.message) from blocked
    except (TimeoutError, OSError) as error:
        said = "There is no connection to the remote agent: nothing answers there, or its certificate is refused."
        raise Trouble(Code.UNREACHABLE, said, passing=True) from error


async def _next(coming: AsyncIterator[bytes], idle: float, sent: SentFlag) -> bytes | None:
    async with troubles.within(idle, sent):
        with _told():
            return await anext(coming, None)


@contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except grpc.aio.AioRpcError as error:
        raise _trouble(error) from error


def _read(method: Rpc, raw: bytes) -> Mapping[str, Any]:
    try:
        return protobuf.as_json(method.response.FromString(raw))
    except (DecodeError, Fault) as error:
        said = "The remote agent's answer is none of the protocol."
        raise Trouble(Code.INVALID_ANSWER, said, sent=True) from error


def _trouble(error: grpc.aio.AioRpcError) -> Trouble:
    status, words = error.code(), error.details() or ""
    told: Any = error.trailing_metadata()
    trailers = dict(told or ())
    label = f"status {status.name}"
    if status == grpc.StatusCode.RESOURCE_EXHAUSTED and TOO_LARGE in words:
        return Trouble(Code.TOO_LARGE, f"A message to or from the remote agent is too large ({label}).", sent=True)
    kind = _reason(trailers.get(DETAILS)) or troubles.BY_NAME.get(words.partition(":")[0]) or BY_STATUS.get(status)
    if status in CREDENTIALS:
        return troubles.of_credentials(label, {"message": words}, known=status == grpc.StatusCode.PERMISSION_DENIED)
    if status == grpc.StatusCode.DEADLINE_EXCEEDED:
        return Trouble(
            Code.TIMEOUT, f"The remote agent was not done in its own time ({label}).", sent=True, passing=True
        )
    if status in BROKEN and kind is None:
        said = f"The remote agent closed the connection before it had answered ({label})."
        return Trouble(Code.UNREACHABLE, said, sent=True, passing=True)
    asked = retrying.asked_for(str(trailers.get("retry-after", "")))
    return troubles.of_kind(kind, label, {"message": words}, retry_after=asked)


def _reason(details: Any) -> Kind | None:
    try:
        told = Status.FromString(details or b"")
    except (DecodeError, TypeError):
        return None
    info = ErrorInfo()
    found = next((one for one in told.details if one.Is(info.DESCRIPTOR)), None)
    if found is None:
        return None
    try:
        found.Unpack(info)
    except DecodeError:
        return None
    return troubles.BY_REASON.get(info.reason)
