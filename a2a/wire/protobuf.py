"""Between JSON and protocol buffers, and the services that are made of them.

A `Struct` has one kind of number, so what comes from one cannot say whether it was 3 or 3.0: whole numbers are read as
integers, as JavaScript has them. One that is too large to be kept exactly is written as a text.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from google.protobuf import json_format, message_factory
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from google.protobuf.message import DecodeError, Message

from a2a.wire.codecs import Body, Codec, Codecs
from a2a.wire.faults import Fault, Kind, invalid

#: Beyond, a double leaves out every other whole number.
LARGEST_WHOLE = 2**53
#: What is nested deeper may be too deep for a reader of protocol buffers: they go down 100 messages, three an object.
SURELY_SHALLOW = 24


@dataclass(frozen=True)
class Rpc:
    """A method of a service: which operation it asks for, and what goes in and comes out."""

    path: str
    operation: str
    version: str
    request: type[Message]
    response: type[Message]
    codec: Codec
    streams: bool

    def read(self, message: Message) -> dict[str, Any]:
        return self.codec.read(as_json(message))

    def write(self, body: Body) -> Message:
        return as_message(self.codec.write(body), self.response)

    def write_item(self, item: Body) -> Message:
        assert self.codec.write_item is not None  # a method that streams has one
        return as_message(self.codec.write_item(item), self.response)


def rpcs(service: ServiceDescriptor, *, version: str, codecs: Codecs, operations: Mapping[str, str]) -> list[Rpc]:
    """The methods of a service; `operations` names those that are called otherwise than their operation."""
    return [_rpc(method, version, codecs, operations.get(method.name, method.name)) for method in service.methods]


def _rpc(method: MethodDescriptor, version: str, codecs: Codecs, operation: str) -> Rpc:
    path = f"/{method.containing_service.full_name}/{method.name}"
    request = message_factory.GetMessageClass(method.input_type)
    response = message_factory.GetMessageClass(method.output_type)
    return Rpc(path, operation, version, request, response, codecs[operation], method.server_streaming)


def as_json(message: Message) -> dict[str, Any]:
    """In camelCase; what has its zero value is left out, unless its field can tell that it was set."""
    try:
        return dict(_read(json_format.MessageToDict(message)))
    except json_format.SerializeToJsonError as error:
        raise invalid(("", f"{error}. JSON has no such number.")) from error


def as_message(body: Body, kind: type[Message]) -> Message:
    """What the message has no field for is left out."""
    depth, told = _write(body)
    try:
        message = json_format.ParseDict(told, kind(), ignore_unknown_fields=True)
        if depth > SURELY_SHALLOW:
            kind.FromString(message.SerializeToString())
    except (json_format.ParseError, DecodeError) as error:
        said = (
            "This cannot be told in protocol buffers, most likely because it is nested too deep. Ask for it over HTTP."
        )
        raise Fault(Kind.UNSUPPORTED, said) from error
    return message


def _read(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _read(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_read(one) for one in value]
    if isinstance(value, float) and value.is_integer() and abs(value) <= LARGEST_WHOLE:
        return int(value)
    return value


def _write(value: Any) -> tuple[int, Any]:
    """How deep it is, and the same with numbers that a double holds."""
    if isinstance(value, Mapping):
        inside = {name: _write(one) for name, one in value.items()}
        return 1 + _deepest(inside.values()), {name: one for name, (_, one) in inside.items()}
    if isinstance(value, list):
        items = [_write(one) for one in value]
        return 1 + _deepest(items), [one for _, one in items]
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > LARGEST_WHOLE:
        return 0, str(value)
    return 0, value


def _deepest(found: Any) -> int:
    return max((depth for depth, _ in found), default=0)
