"""0.3 in the JSON of its protocol buffers, as its REST has it, and as they themselves are made from."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from a2a.wire.codecs import Body, Codec, Codecs, Writer
from a2a.wire.v03 import words
from a2a.wire.v03.json import write_callback
from a2a.wire.v03.protojson_requests import READERS
from a2a.wire.v03.words import kept


def task_name(task_id: str) -> str:
    return f"tasks/{task_id}"


def config_name(task_id: str, config_id: str) -> str:
    return f"{task_name(task_id)}/pushNotificationConfigs/{config_id}"


def write_stream_item(item: Body, *, last: frozenset[str] = words.TERMINAL) -> dict[str, Any]:
    """One of a task, a message, a change of status and an artifact; `last` are the states that end the stream."""
    name, body = next(iter(item.items()))
    if name == "statusUpdate":
        said = {"status": write_status(body["status"]), "final": body["status"]["state"] in last}
        return {name: {**kept(body, "taskId", "contextId", "metadata"), **said}}
    if name == "artifactUpdate":
        said = {"artifact": write_artifact(body["artifact"])}
        return {name: {**kept(body, "taskId", "contextId", "append", "lastChunk", "metadata"), **said}}
    return {name: write_task(body) if name == "task" else write_message(body)}


def write_task(task: Body) -> dict[str, Any]:
    said = {**kept(task, "id", "contextId", "metadata"), "status": write_status(task["status"])}
    if "history" in task:
        said["history"] = [write_message(message) for message in task["history"]]
    if "artifacts" in task:
        said["artifacts"] = [write_artifact(artifact) for artifact in task["artifacts"]]
    return said


def write_status(status: Body) -> dict[str, Any]:
    state = status["state"]
    said = {"state": words.PROTO_STATES.get(state, state), **kept(status, "timestamp")}
    return {**said, "message": write_message(status["message"])} if "message" in status else said


def write_message(message: Body) -> dict[str, Any]:
    """The protocol buffers of 0.3 have no ids of other tasks."""
    said = kept(message, "messageId", "contextId", "taskId", "role", "metadata", "extensions")
    return {**said, "content": [write_part(part) for part in message["parts"]]}


def write_artifact(artifact: Body) -> dict[str, Any]:
    said = kept(artifact, "artifactId", "name", "description", "metadata", "extensions")
    return {**said, "parts": [write_part(part) for part in artifact["parts"]]}


def write_part(part: Body) -> dict[str, Any]:
    metadata = dict(part.get("metadata", {}))
    said: dict[str, Any]
    if "text" in part:
        said = {"text": part["text"]}
    elif "data" in part:
        data, metadata = words.boxed(part)
        said = {"data": {"data": data}}
    else:
        said = {"file": _file(part)}
    return {**said, "metadata": metadata} if metadata else said


def _file(part: Body) -> dict[str, Any]:
    names = {"url": "fileWithUri", "mediaType": "mimeType", "filename": "name"}
    said = {called: part[name] for name, called in names.items() if name in part}
    return {**said, "fileWithBytes": words.wrapped(part["raw"])} if "raw" in part else said


def write_push_config(config: Body) -> dict[str, Any]:
    name = config_name(config["taskId"], config["id"])
    return {"name": name, "pushNotificationConfig": write_callback(config)}


def write_push_configs(found: Body) -> dict[str, Any]:
    said = {"configs": [write_push_config(config) for config in found["configs"]]}
    return {**said, "nextPageToken": found["nextPageToken"]} if found.get("nextPageToken") else said


def write_nothing(_body: Body) -> dict[str, Any]:
    return {}


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
