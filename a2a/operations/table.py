"""The table: every operation once, with its name in each binding and the verb behind it."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from a2a.operations import pushing, reading, sending
from a2a.operations.answers import Began
from a2a.operations.visits import Visit

Params = Mapping[str, Any]
_FIELD = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True)
class Route:
    """A method and a path below the agent's own, whose fields are parameters."""

    method: str
    path: str

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        return re.compile(_FIELD.sub(r"(?P<\1>[^/:]+)", self.path))


@dataclass(frozen=True)
class Operation:
    #: Its method in 1.0's JSON-RPC and in gRPC.
    name: str
    #: Its method in 0.3's JSON-RPC; none for what came with 1.0.
    old_name: str
    rest: tuple[Route, ...]
    run: Callable[[Visit, Params], Mapping[str, Any] | Began]
    streams: bool = False
    own_old_rest: tuple[Route, ...] = ()
    #: The URL of a receiver that it is given, and in which field.
    receiver: Callable[[Params], tuple[str, str] | None] = lambda _params: None

    @property
    def old_rest(self) -> tuple[Route, ...]:
        """0.3 has the same paths, below `/v1`, but for one."""
        return (self.own_old_rest or self.rest) if self.old_name else ()


def _routes(*said: str) -> tuple[Route, ...]:
    return tuple(Route(*one.split(" ", 1)) for one in said)


_CONFIGS = "tasks/{taskId}/pushNotificationConfigs"
TABLE = (
    Operation("SendMessage", "message/send", _routes("POST message:send"), sending.send, receiver=sending.receiver),
    Operation(
        "SendStreamingMessage", "message/stream", _routes("POST message:stream"), sending.begin_stream, streams=True,
        receiver=sending.receiver,
    ),
    Operation("GetTask", "tasks/get", _routes("GET tasks/{id}"), reading.get),
    Operation("ListTasks", "", _routes("GET tasks"), reading.listing),
    Operation("CancelTask", "tasks/cancel", _routes("POST tasks/{id}:cancel"), sending.cancel),
    Operation(
        "SubscribeToTask",
        "tasks/resubscribe",
        # The protocol's text says one and its definition the other.
        _routes("POST tasks/{id}:subscribe", "GET tasks/{id}:subscribe"),
        reading.subscribe,
        streams=True,
    ),
    Operation(
        "CreateTaskPushNotificationConfig", "tasks/pushNotificationConfig/set", _routes(f"POST {_CONFIGS}"),
        pushing.create, receiver=pushing.receiver,
    ),
    Operation(
        "GetTaskPushNotificationConfig", "tasks/pushNotificationConfig/get", _routes(f"GET {_CONFIGS}/{{id}}"),
        pushing.get,
    ),
    Operation(
        "ListTaskPushNotificationConfigs", "tasks/pushNotificationConfig/list", _routes(f"GET {_CONFIGS}"),
        pushing.listing,
    ),
    Operation(
        "DeleteTaskPushNotificationConfig", "tasks/pushNotificationConfig/delete", _routes(f"DELETE {_CONFIGS}/{{id}}"),
        pushing.delete,
    ),
    Operation(
        "GetExtendedAgentCard", "agent/getAuthenticatedExtendedCard", _routes("GET extendedAgentCard"),
        reading.extended_card, own_old_rest=_routes("GET card"),
    ),
)  # fmt: skip
OPERATIONS: dict[str, Operation] = {one.name: one for one in TABLE}
OLD_NAMES: dict[str, Operation] = {one.old_name: one for one in TABLE if one.old_name}
