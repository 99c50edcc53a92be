"""1.0 in protocol buffers. Their JSON is what is stored, so each operation's codec is its reader and nothing else."""

from collections.abc import Mapping
from typing import Any

from a2a.wire.codecs import Body, Codec, Codecs
from a2a.wire.protobuf import Rpc, rpcs
from a2a.wire.v1 import a2a_v1_pb2 as messages
from a2a.wire.v1.requests import READERS

STREAMS = ("SendStreamingMessage", "SubscribeToTask")


def write_nothing(_body: Body) -> Mapping[str, Any]:
    return {}


def _codec(operation: str) -> Codec:
    write = write_nothing if operation == "DeleteTaskPushNotificationConfig" else dict
    return Codec(READERS[operation], write, dict if operation in STREAMS else None)


OPERATIONS: Codecs = {operation: _codec(operation) for operation in READERS}
RPCS: list[Rpc] = rpcs(
    messages.DESCRIPTOR.services_by_name["A2AService"], version="1.0", codecs=OPERATIONS, operations={}
)
