"""Requests to a remote agent, in the words of its version and binding. What is given is in 1.0's shape."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import quote

from a2a.remote.target import Interface
from a2a.wire.v03 import words
from common.ids import uuid7

Verb = Literal["send", "stream", "get", "cancel", "subscribe"]
METHODS: dict[tuple[str, Verb], str] = {
    ("1.0", "send"): "SendMessage",
    ("1.0", "stream"): "SendStreamingMessage",
    ("1.0", "get"): "GetTask",
    ("1.0", "cancel"): "CancelTask",
    ("1.0", "subscribe"): "SubscribeToTask",
    ("0.3", "send"): "message/send",
    ("0.3", "stream"): "message/stream",
    ("0.3", "get"): "tasks/get",
    ("0.3", "cancel"): "tasks/cancel",
    ("0.3", "subscribe"): "tasks/resubscribe",
}
PATHS: dict[Verb, str] = {
    "send": "/message:send",
    "stream": "/message:stream",
    "get": "/tasks/{id}",
    "cancel": "/tasks/{id}:cancel",
    "subscribe": "/tasks/{id}:subscribe",
}
STREAMED: frozenset[Verb] = frozenset({"stream", "subscribe"})


@dataclass(frozen=True)
class Call:
    """One request. `id` is JSON-RPC's, and empty over the others."""

    verb: Verb
    http: Literal["GET", "POST"]
    url: str
    body: Mapping[str, Any] | None
    id: str = ""

    @property
    def streamed(self) -> bool:
        return self.verb in STREAMED


def sending(interface: Interface, message: Mapping[str, Any], *, streamed: bool, metadata: Mapping[str, Any]) -> Call:
    """Answered as soon as the agent has the task: its end is followed, not waited for."""
    if interface.version == "1.0":
        told, wanted = message, {"returnImmediately": True}
    else:
        told, wanted = _untagged(message) if interface.untagged_old else _tagged(message), {"blocking": False}
    params = {"message": told, "configuration": wanted, "metadata": metadata}
    return _call(interface, "stream" if streamed else "send", params)


def of_task(interface: Interface, verb: Verb, task_id: str) -> Call:
    return _call(interface, verb, {"id": task_id})


def _call(interface: Interface, verb: Verb, params: dict[str, Any]) -> Call:
    tenant = {"tenant": interface.tenant} if interface.tenant else {}
    if interface.binding == "GRPC":
        return Call(verb, "POST", interface.url, {**tenant, **_named(interface, params)})
    if interface.binding == "JSONRPC":
        call_id = str(uuid7())
        body = {"jsonrpc": "2.0", "id": call_id, "method": METHODS[interface.version, verb]}
        return Call(verb, "POST", interface.url, {**body, "params": {**tenant, **params}}, call_id)
    path = PATHS[verb].format(id=quote(params.pop("id", ""), safe=""))
    url = f"{_base(interface)}{path}"
    return Call(verb, "GET", url, None) if verb == "get" else Call(verb, "POST", url, params)


def _named(interface: Interface, params: dict[str, Any]) -> dict[str, Any]:
    """0.3's protocol buffers call a task by the path that it has over REST."""
    return {"name": f"tasks/{params['id']}"} if interface.version == "0.3" and "id" in params else params


def _base(interface: Interface) -> str:
    """Where REST begins: 0.3's paths are below `/v1`, which some cards name and some leave out."""
    base = interface.url.rstrip("/")
    if interface.version == "0.3":
        return base if base.endswith("/v1") else f"{base}/v1"
    return f"{base}/{quote(interface.tenant, safe='')}" if interface.tenant else base


def _tagged(message: Mapping[str, Any]) -> dict[str, Any]:
    """A message as 0.3's JSON has it."""
    rest = {name: value for name, value in message.items() if name not in ("role", "parts")}
    role = "agent" if message["role"] == "ROLE_AGENT" else "user"
    return {"kind": "message", **rest, "role": role, "parts": [_tagged_part(part) for part in message["parts"]]}


def _tagged_part(part: Mapping[str, Any]) -> dict[str, Any]:
    rest = {"metadata": part["metadata"]} if part.get("metadata") else {}
    if "text" in part:
        return {"kind": "text", "text": part["text"], **rest}
    if "data" in part:
        return {"kind": "data", **_old_data(part)}
    file = {"bytes": part["raw"]} if "raw" in part else {"uri": part.get("url", "")}
    return {"kind": "file", "file": {**file, **_renamed(part, filename="name", mediaType="mimeType")}, **rest}


def _untagged(message: Mapping[str, Any]) -> dict[str, Any]:
    """A message as ProtoJSON of 0.3's proto has it."""
    rest = {name: value for name, value in message.items() if name not in ("parts", "referenceTaskIds")}
    return {**rest, "content": [_untagged_part(part) for part in message["parts"]]}


def _untagged_part(part: Mapping[str, Any]) -> dict[str, Any]:
    rest = {"metadata": part["metadata"]} if part.get("metadata") else {}
    if "text" in part:
        return {"text": part["text"], **rest}
    if "data" in part:
        told = _old_data(part)
        return {**told, "data": {"data": told["data"]}}
    file = {"fileWithBytes": words.wrapped(part["raw"])} if "raw" in part else {"fileWithUri": part.get("url", "")}
    return {"file": {**file, **_renamed(part, filename="name", mediaType="mimeType")}, **rest}


def _old_data(part: Mapping[str, Any]) -> dict[str, Any]:
    """0.3 knows objects alone; anything else goes as the official SDK sends it."""
    metadata = dict(part.get("metadata") or {})
    data = part["data"]
    if not isinstance(data, dict):
        data, metadata = {"value": data}, {**metadata, "data_part_compat": True}
    return {"data": data, "metadata": metadata} if metadata else {"data": data}


def _renamed(part: Mapping[str, Any], **names: str) -> dict[str, Any]:
    return {to: part[name] for name, to in names.items() if part.get(name)}
