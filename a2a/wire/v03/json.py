"""0.3's JSON, as its JSON-RPC has it: everything says its `kind`, and results stand bare."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from a2a.wire.codecs import Body, Codec, Codecs, Writer
from a2a.wire.v03 import words
from a2a.wire.v03.json_requests import READERS
from a2a.wire.v03.words import kept


def write_stream_item(item: Body, *, last: frozenset[str] = words.TERMINAL) -> dict[str, Any]:
    """One of a task, a message, a change of status and an artifact; `last` are the states that end the stream."""
    name, body = next(iter(item.items()))
    if name == "statusUpdate":
        final = body["status"]["state"] in last
        said = {"status": write_status(body["status"]), "final": final, **kept(body, "metadata")}
        return {"kind": "status-update", **kept(body, "taskId", "contextId"), **said}
    if name == "artifactUpdate":
        said = {"artifact": write_artifact(body["artifact"]), **kept(body, "append", "lastChunk", "metadata")}
        return {"kind": "artifact-update", **kept(body, "taskId", "contextId"), **said}
    return write_task(body) if name == "task" else write_message(body)


def write_task(task: Body) -> dict[str, Any]:
    said: dict[str, Any] = {"kind": "task", **kept(task, "id", "contextId"), "status": write_status(task["status"])}
    if "history" in task:
        said["history"] = [write_message(message) for message in task["history"]]
    if "artifacts" in task:
        said["artifacts"] = [write_artifact(artifact) for artifact in task["artifacts"]]
    return {**said, **kept(task, "metadata")}


def write_status(status: Body) -> dict[str, Any]:
    said: dict[str, Any] = {"state": words.STATES.get(status["state"], words.UNKNOWN)}
    if "message" in status:
        said["message"] = write_message(status["message"])
    return {**said, **kept(status, "timestamp")}


def write_message(message: Body) -> dict[str, Any]:
    parts = [write_part(part) for part in message["parts"]]
    said = {"kind": "message", "role": words.ROLES.get(message["role"], "agent"), "parts": parts}
    return {
        **said,
        **kept(message, "messageId", "contextId", "taskId", "metadata", "extensions", "referenceTaskIds"),
    }


def write_artifact(artifact: Body) -> dict[str, Any]:
    parts = [write_part(part) for part in artifact["parts"]]
    return {**kept(artifact, "artifactId", "name", "description"), "parts": parts, **kept(artifact, *_FREE)}


def write_part(part: Body) -> dict[str, Any]:
    """0.3 has no media type and no name for texts and data."""
    metadata = dict(part.get("metadata", {}))
    said: dict[str, Any]
    if "text" in part:
        said = {"kind": "text", "text": part["text"]}
    elif "data" in part:
        data, metadata = words.boxed(part)
        said = {"kind": "data", "data": data}
    else:
        said = {"kind": "file", "file": _file(part)}
    return {**said, "metadata": metadata} if metadata else said


def _file(part: Body) -> dict[str, Any]:
    names = {"raw": "bytes", "url": "uri", "mediaType": "mimeType", "filename": "name"}
    return {said: part[name] for name, said in names.items() if name in part}


def write_push_config(config: Body) -> dict[str, Any]:
    return {"taskId": config["taskId"], "pushNotificationConfig": write_callback(config)}


def write_callback(config: Body) -> dict[str, Any]:
    said = kept(config, "id", "url", "token")
    if "authentication" in config:
        known = config["authentication"]
        said["authentication"] = {"schemes": [known["scheme"]], **kept(known, "credentials")}
    return said


def write_push_configs(found: Body) -> list[dict[str, Any]]:
    return [write_push_config(config) for config in found["configs"]]


def write_nothing(_body: Body) -> None:
    """What was deleted is told by null."""


_FREE = ("metadata", "extensions")
_WRITERS: Mapping[str, Writer] = {
    "SendMessage": write_stream_item,
    "GetTask": write_task,
    "CancelTask": write_task,
    "CreateTaskPushNotificationConfig": write_push_config,
    "GetTaskPushNotificationConfig": write_push_config,
    "ListTaskPushNotificationConfigs": write_push_configs,
    "DeleteTaskPushNotificationConfig": write_nothing,
    "GetExtendedAgentCard": dict,
}
_ITEM_WRITERS: Mapping[str, Writer] = {
    "SendStreamingMessage": partial(write_stream_item, last=words.CALLERS_TURN),
    "SubscribeToTask": write_stream_item,
}
OPERATIONS: Codecs = {
    name: Codec(read, _WRITERS.get(name, write_stream_item), _ITEM_WRITERS.get(name)) for name, read in READERS.items()
}
