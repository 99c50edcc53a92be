"""Requests of 0.3 in the JSON of its protocol buffers, which its REST has, read into those of 1.0."""

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from a2a.wire.codecs import Params
from a2a.wire.reading import Read, Reader
from a2a.wire.v03 import json_requests, words
from a2a.wire.v03.json_requests import content, one_file, push_config
from a2a.wire.v1 import requests
from a2a.wire.v1.requests import identifier, maybe_id, struct

#: How a request names a task, and a config of one.
TASK, CONFIG = "tasks/{taskId}", "tasks/{taskId}/pushNotificationConfigs/{id}"
SIDES = {**{side: side for side in words.ROLES}, **json_requests.SIDES}


def read_send_message(params: Params) -> dict[str, Any]:
    """The message is called `request` in the .proto and `message` in its JSON; clients send either."""
    given = {**params, "message": params.get("message", params.get("request"))}
    return requests.read(given, {"message": message, "configuration": configuration, "metadata": struct}, "message")


def read_get_task(params: Params) -> dict[str, Any]:
    found = requests.read(_named(params, TASK), {"name": named(TASK), "historyLength": Reader.number}, "name")
    return {"id": found["name"]["taskId"], **words.kept(found, "historyLength")}


def read_task_id(params: Params) -> dict[str, Any]:
    return {"id": requests.read(_named(params, TASK), {"name": named(TASK)}, "name")["name"]["taskId"]}


def read_create_push_config(params: Params) -> dict[str, Any]:
    """`config` holds the callback, and so does a body that is one itself: paths of REST and documents differ."""
    given = _named(params, TASK, "parent")
    known = {"parent": parent, "configId": maybe_id, "config": held_config}
    found = requests.read({**given, "config": given.get("config", given)}, known, "parent", "config")
    which = {"id": found["configId"]} if found.get("configId") else {}
    return {"taskId": found["parent"]["taskId"], **which, **found["config"]}


def read_push_config(params: Params) -> dict[str, Any]:
    return dict(requests.read(_named(params, CONFIG), {"name": named(CONFIG)}, "name")["name"])


def read_list_push_configs(params: Params) -> dict[str, Any]:
    known: dict[str, Read] = {"parent": parent, "pageSize": Reader.number, "pageToken": Reader.text}
    found = requests.read(_named(params, TASK, "parent"), known, "parent")
    # Neither says anything when it is zero or empty.
    return {"taskId": found["parent"]["taskId"], **{n: found[n] for n in ("pageSize", "pageToken") if found.get(n)}}


def _named(params: Params, form: str, called: str = "name") -> Params:
    """With the name that a path's fields say, where it was a path that said it."""
    given = {"taskId": params["id"], **params} if (form, called) == (TASK, "name") and "id" in params else params
    if any(name not in given for name in re.findall(r"{(\w+)}", form)):
        return params
    return {**params, called: form.format(**given)}


def named(form: str) -> Read:
    """The ids in a name."""
    pattern = re.compile(re.sub(r"{(\w+)}", r"(?P<\1>[^/]+)", form))

    def read(reader: Reader, place: str, value: Any) -> dict[str, str]:
        found = pattern.fullmatch(reader.text(place, value, most=500))
        if found is None:
            reader.wrong(place, f"Give a name of the form {form}.")
        return {name: found[name] if found else "" for name in pattern.groupindex}

    return read


def parent(reader: Reader, place: str, value: Any) -> dict[str, str]:
    """A task; some say its collection of configs."""
    said = value.removesuffix("/pushNotificationConfigs") if isinstance(value, str) else value
    return dict(named(TASK)(reader, place, said))


def held_config(reader: Reader, place: str, value: Any) -> dict[str, Any]:
    known: dict[str, Read] = {"pushNotificationConfig": push_config}
    if isinstance(value, Mapping) and "url" in value:
        value = {"pushNotificationConfig": value}
    return dict(
        reader.fields(place, value, known, required=("pushNotificationConfig",)).get("pushNotificationConfig", {})
    )


def message(reader: Reader, place: str, value: Any) -> dict[str, Any]:
    """`content` are the parts; some clients say `parts`."""
    known: dict[str, Read] = {
        "messageId": identifier,
        "contextId": maybe_id,
        "taskId": maybe_id,
        "role": role,
        "content": partial(json_requests.parts, read=part),
        "metadata": struct,
        "extensions": Reader.texts,
        "referenceTaskIds": Reader.texts,
    }
    if isinstance(value, Mapping) and "content" not in value and "parts" in value:
        value = {**value, "content": value["parts"]}
    found = reader.fields(place, value, known, required=("messageId", "role", "content"))
    parts = {"parts": found["content"]} if "content" in found else {}
    return {**{name: one for name, one in found.items() if name != "content" and one != ""}, **parts}


def role(reader: Reader, place: str, value: Any) -> str:
    if SIDES.get(value) == "ROLE_AGENT":
        reader.wrong(place, "Who sends a message to an agent is ROLE_USER.")
    elif value not in SIDES:
        reader.wrong(place, "Use ROLE_USER.")
    return "ROLE_USER"


def part(reader: Reader, place: str, value: Any) -> dict[str, Any]:
    if isinstance(value, Mapping) and "kind" in value:
        # As in JSON-RPC, which is what 0.3's documents show.
        return json_requests.part(reader, place, value)
    known: dict[str, Read] = {
        "text": partial(Reader.text, most=json_requests.LONGEST_TEXT),
        "file": file,
        "data": data,
        "metadata": struct,
    }
    return content(reader, place, value, reader.fields(place, value, known), None)


def file(reader: Reader, place: str, value: Any) -> dict[str, Any]:
    known: dict[str, Read] = {
        "fileWithBytes": file_bytes,
        "fileWithUri": partial(Reader.text, most=json_requests.LONGEST_URL),
        "mimeType": requests.media_type,
        "name": partial(Reader.text, most=json_requests.LONGEST_NAME),
    }
    return one_file(reader, place, value, reader.fields(place, value, known), ("fileWithBytes", "fileWithUri"))


def file_bytes(reader: Reader, place: str, value: Any) -> str:
    return words.unwrapped(requests.raw(reader, place, value))


def data(reader: Reader, place: str, value: Any) -> dict[str, Any]:
    return dict(reader.fields(place, value, {"data": struct}, required=("data",)).get("data", {}))


def configuration(reader: Reader, place: str, value: Any) -> dict[str, Any]:
    """A number that is zero and a flag that is not set are as good as not there: that is how their encoding has it."""
    known: dict[str, Read] = {
        "acceptedOutputModes": Reader.texts,
        "historyLength": Reader.number,
        "pushNotification": push_config,
        "blocking": Reader.flag,
    }
    found = {"blocking": False, **reader.fields(place, value, known)}
    return json_requests.configured(
        {n: v for n, v in found.items() if (n, v) != ("historyLength", 0)}, "pushNotification"
    )


READERS: dict[str, Callable[[Params], dict[str, Any]]] = {
    "SendMessage": read_send_message,
    "SendStreamingMessage": read_send_message,
    "GetTask": read_get_task,
    "CancelTask": read_task_id,
    "SubscribeToTask": read_task_id,
    "CreateTaskPushNotificationConfig": read_create_push_config,
    "GetTaskPushNotificationConfig": read_push_config,
    "ListTaskPushNotificationConfigs": read_list_push_configs,
    "DeleteTaskPushNotificationConfig": read_push_config,
    "GetExtendedAgentCard": json_requests.read_extended_card,
}
