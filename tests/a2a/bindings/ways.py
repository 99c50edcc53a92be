"""One operation asked of one agent in each of the six bindings, and what came of it in words that they share."""

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import grpc

from a2a.operations.table import OPERATIONS, Operation, Route
from a2a.wire import protobuf
from a2a.wire.faults import Kind
from a2a.wire.v03 import errors
from tests.a2a.grpc.door import NEW, OLD, Client, refused_by
from tests.services.asgi import Answer, Door

OK = "ok"
BY_REASON = {kind.value.reason: kind.name for kind in Kind}
BY_CODE = {kind.value.jsonrpc: kind.name for kind in Kind}
BY_NAME = {errors.name(kind): kind.name for kind in Kind}
CONFIG = "c"


@dataclass(frozen=True)
class Told:
    """`OK` or the name of a fault, and all that a client could tell one refusal from another by, but for its id."""

    outcome: str
    words: Any


@dataclass(frozen=True)
class Asking:
    operation: str
    token: str
    task_id: str
    receiver: str = "https://example.com/hook"
    agent: str = "writer"
    #: Of a message: the task that it says it goes on with.
    goes_on: bool = False

    @property
    def has_task(self) -> bool:
        return self.goes_on or self.operation not in {
            "SendMessage", "SendStreamingMessage", "ListTasks", "GetExtendedAgentCard",
        }  # fmt: skip

    def message(self, **parts: Any) -> dict[str, Any]:
        return {"messageId": "m", **parts, **({"taskId": self.task_id} if self.goes_on else {})}


class Way(ABC):
    name: str
    old = False

    def can(self, operation: str) -> bool:
        return not self.old or bool(OPERATIONS[operation].old_name)

    @abstractmethod
    async def ask(self, asking: Asking) -> Told: ...


class OverHttp(Way):
    def __init__(self, door: Door) -> None:
        self._door = door

    async def ask(self, asking: Asking) -> Told:
        method, path, body = self.sent(OPERATIONS[asking.operation], asking)
        said = {} if self.old else {"a2a_version": "1.0"}
        typed = {} if body is None else {"content_type": "application/json"}
        raw = b"" if body is None else json.dumps(body).encode()
        answer = await self._door.ask(method, f"/agents/{asking.agent}/{path}", asking.token, "", raw, **said, **typed)
        return self.told(answer, await first_of(answer))

    def told(self, answer: Answer, body: Any) -> Told:
        headers = {name: value for name, value in answer.headers.items() if name != "x-request-id"}
        return Told(self.outcome(answer.status, body), (answer.status, headers, body))

    @abstractmethod
    def sent(self, operation: Operation, asking: Asking) -> tuple[str, str, Any]: ...

    @abstractmethod
    def outcome(self, status: int, body: Any) -> str: ...


class NewRpc(OverHttp):
    name = "1.0 JSON-RPC"

    def sent(self, operation: Operation, asking: Asking) -> tuple[str, str, Any]:
        return "POST", "", {"jsonrpc": "2.0", "id": 7, "method": operation.name, "params": new_params(asking)}

    def outcome(self, status: int, body: Any) -> str:
        assert status in {200, 401, 403, 404}
        return OK if "error" not in body else BY_REASON[body["error"]["data"][0]["reason"]]


class OldRpc(NewRpc):
    name, old = "0.3 JSON-RPC", True

    def sent(self, operation: Operation, asking: Asking) -> tuple[str, str, Any]:
        return "POST", "", {"jsonrpc": "2.0", "id": 7, "method": operation.old_name, "params": old_params(asking)}

    def outcome(self, status: int, body: Any) -> str:
        assert status in {200, 401, 403, 404}
        return OK if "error" not in body else BY_CODE[body["error"]["code"]]


class NewHttp(OverHttp):
    name = "1.0 HTTP"

    def sent(self, operation: Operation, asking: Asking) -> tuple[str, str, Any]:
        route = operation.rest[0]
        return route.method, placed(route, asking), new_params(asking) if route.method == "POST" else None

    def outcome(self, status: int, body: Any) -> str:
        assert (status == 200) == ("error" not in body)
        return OK if status == 200 else BY_REASON[body["error"]["details"][0]["reason"]]


class OldHttp(OverHttp):
    name, old = "0.3 HTTP", True

    def sent(self, operation: Operation, asking: Asking) -> tuple[str, str, Any]:
        route = operation.old_rest[0]
        return route.method, f"v1/{placed(route, asking)}", old_proto(asking) if route.method == "POST" else None

    def outcome(self, status: int, body: Any) -> str:
        assert (status == 200) == ("error" not in body)
        return OK if status == 200 else BY_NAME[body["error"]]


class NewGrpc(Way):
    name = "1.0 gRPC"

    def __init__(self, client: Client) -> None:
        self._client = client

    async def ask(self, asking: Asking) -> Told:
        rpc = (OLD if self.old else NEW)[asking.operation]
        params = old_proto(asking) if self.old else new_params(asking)
        shown = [("authorization", f"Bearer {asking.token}")] if asking.token else []
        metadata = [*shown, ("x-gatehouse-agent", asking.agent)]
        try:
            if not rpc.streams:
                return Told(OK, await self._client.ask(rpc, params, metadata))
            call = self._client.follow(rpc, params, metadata)
            first = protobuf.as_json(await call.read())
            call.cancel()
            return Told(OK, first)
        except grpc.aio.AioRpcError as error:
            refused = refused_by(error)
            trailers = {name: value for name, value in refused.trailers.items() if name != "x-request-id"}
            return Told(BY_REASON[refused.reason], (refused.code, refused.message, trailers))


class OldGrpc(NewGrpc):
    name, old = "0.3 gRPC", True


def new_params(asking: Asking) -> dict[str, Any]:
    task_id = asking.task_id
    message = {"message": asking.message(role="ROLE_USER", parts=[{"text": "Hello"}])}
    params: Mapping[str, dict[str, Any]] = {
        "SendMessage": {**message, "configuration": {"returnImmediately": True}},
        "SendStreamingMessage": message,
        "ListTasks": {},
        "CreateTaskPushNotificationConfig": {"taskId": task_id, "id": CONFIG, "url": asking.receiver},
        "GetTaskPushNotificationConfig": {"taskId": task_id, "id": CONFIG},
        "ListTaskPushNotificationConfigs": {"taskId": task_id},
        "DeleteTaskPushNotificationConfig": {"taskId": task_id, "id": CONFIG},
        "GetExtendedAgentCard": {},
    }
    return params.get(asking.operation, {"id": task_id})


def old_params(asking: Asking) -> dict[str, Any]:
    task_id = asking.task_id
    message = {"message": asking.message(kind="message", role="user", parts=[{"kind": "text", "text": "Hello"}])}
    config = {"taskId": task_id, "pushNotificationConfig": {"id": CONFIG, "url": asking.receiver}}
    one = {"id": task_id, "pushNotificationConfigId": CONFIG}
    params: Mapping[str, dict[str, Any]] = {
        "SendMessage": {**message, "configuration": {"blocking": False}},
        "SendStreamingMessage": message,
        "CreateTaskPushNotificationConfig": config,
        "GetTaskPushNotificationConfig": one,
        "DeleteTaskPushNotificationConfig": one,
        "GetExtendedAgentCard": {},
    }
    return params.get(asking.operation, {"id": task_id})


def old_proto(asking: Asking) -> dict[str, Any]:
    """The same messages over gRPC and as JSON over HTTP, where the path says some of it already."""
    task = f"tasks/{asking.task_id}"
    name = f"{task}/pushNotificationConfigs/{CONFIG}"
    message = {"message": asking.message(role="ROLE_USER", content=[{"text": "Hello"}])}
    config = {"name": name, "pushNotificationConfig": {"id": CONFIG, "url": asking.receiver}}
    params: Mapping[str, dict[str, Any]] = {
        "SendMessage": {**message, "configuration": {}},
        "SendStreamingMessage": message,
        "CreateTaskPushNotificationConfig": {"parent": task, "configId": CONFIG, "config": config},
        "GetTaskPushNotificationConfig": {"name": name},
        "ListTaskPushNotificationConfigs": {"parent": task},
        "DeleteTaskPushNotificationConfig": {"name": name},
        "GetExtendedAgentCard": {},
    }
    return params.get(asking.operation, {"name": task})


def placed(route: Route, asking: Asking) -> str:
    of_config = "pushNotificationConfigs" in route.path
    return route.path.format(taskId=asking.task_id, id=CONFIG if of_config else asking.task_id)


async def first_of(answer: Answer) -> Any:
    """The whole answer, or the first of a stream that is left then."""
    if answer.headers["content-type"] != "text/event-stream":
        return json.loads(await answer.text())
    first = await anext(answer.events())
    await answer.leave()
    return first.data


HELLO = {"kind": "message", "messageId": "m", "role": "user", "parts": [{"kind": "text", "text": "Hello"}]}
SEND = {"message": HELLO, "configuration": {"blocking": False}}
PROTO = {"message": {"messageId": "m", "role": "ROLE_USER", "content": [{"text": "Hello"}]}, "configuration": {}}
