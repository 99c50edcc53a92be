"""Faults as gRPC tells them: a status, and Google's details of it in the trailers."""

import grpc
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status

from a2a.wire.faults import DOMAIN, Fault
from a2a.wire.metadata import DETAILS
from a2a.wire.v03 import errors

#: Clients take 8 KiB of trailers, in which a message stands twice and what is not ASCII three times as long.
LONGEST_MESSAGE, LONGEST_DETAILS = 500, 3000


async def refuse(
    context: "grpc.aio.ServicerContext[bytes, bytes]", fault: Fault, *, version: str, request_id: str
) -> None:
    told = status(fault, version)
    trailers = [(DETAILS, told.SerializeToString()), ("x-request-id", request_id)]
    if fault.retry_after is not None:
        trailers.append(("retry-after", str(fault.retry_after)))
    await context.abort(code(fault), told.message, tuple(trailers))


def code(fault: Fault) -> grpc.StatusCode:
    return grpc.StatusCode[fault.kind.value.grpc]


def status(fault: Fault, version: str) -> Status:
    """Clients of 0.3 look for the error's name in the message."""
    said = fault.message if version != "0.3" else f"{errors.name(fault.kind)}: {fault.message}"
    number, _ = code(fault).value
    told = Status(code=number, message=_cut(said))
    for detail in _details(fault):
        if told.ByteSize() + detail.ByteSize() < LONGEST_DETAILS:
            told.details.add().Pack(detail)
    return told


def _details(fault: Fault) -> list[Message]:
    said = {name: _cut(str(value)) for name, value in fault.details.items()}
    found: list[Message] = [ErrorInfo(reason=fault.kind.value.reason, domain=DOMAIN, metadata=said)]
    if fault.fields:
        found.append(_violations(fault))
    if fault.retry_after is not None:
        found.append(RetryInfo(retry_delay=Duration(seconds=fault.retry_after)))
    return found


def _violations(fault: Fault) -> BadRequest:
    """As many as there is room for."""
    told = BadRequest()
    for name, why in fault.fields:
        one = BadRequest.FieldViolation(field=_cut(name), description=_cut(why))
        if told.ByteSize() + one.ByteSize() > LONGEST_DETAILS // 2:
            break
        told.field_violations.append(one)
    return told


def _cut(said: str) -> str:
    return said if len(said) <= LONGEST_MESSAGE else f"{said[: LONGEST_MESSAGE - 1]}…"
