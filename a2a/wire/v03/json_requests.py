"""Requests of 0.3's JSON-RPC, read into those of 1.0."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from a2a.wire.codecs import Params
from a2a.wire.reading import Read, Reader
from a2a.wire.v03 import words
from a2a.wire.v1 import requests
from a2a.wire.v1.requests import identifier, maybe_id, struct

#: A text as long as a body may be.
LONGEST_TEXT, LONGEST_URL, LONGEST_NAME = 10 * 1024 * 1024, 4000, 500
CONTENTS = ("text", "file", "data")
SIDES = {side: role for role, side in words.ROLES.items()}
ID: dict[str, Read] = {"id": identifier, "metadata": struct}
CONFIG_ID = "pushNotificationConfigId"


def read_send_message(params: Params) -> dict[str, Any]:
    return requests.read(params, {"message": message, "configuration": configuration, "metadata": struct}, "message")


def read_get_task(params: Params) -> dict[str, Any]:
    return _read(params, {**ID, "historyLength": Reader.number}, "id", without=("metadata",))


def read_cancel_task(params: Params) -> dict[str, Any]:
    return _read(params, ID, "id")


def read_subscribe(params: Params) -> dict[str, Any]:
    return _read(params, ID, "id", without=("metadata",))


def read_create_push_config(params: Params) -> dict[str, Any]:
    known = {"taskId": identifier, "pushNotificationConfig": push_config}
    found = requests.read(params, known, "taskId", "pushNotificationConfig")
    return {"taskId": found["taskId"], **found["pushNotificationConfig"]}


def read_push_config(params: Params, *required: str) -> dict[str, Any]:
    """Which one may be left out to get the only one of a task, but not to delete it."""
    found = requests.read(params, {**ID, CONFIG_ID: identifier}, "id", *required)
    which = {"id": found[CONFIG_ID]} if CONFIG_ID in found else {}
    return {"taskId": found["id"], **which}


def read_list_push_configs(params: Params) -> dict[str, Any]:
    return {"taskId": requests.read(params, ID, "id")["id"]}


def read_extended_card(params: Params) -> dict[str, Any]:
    return requests.read(params, {})


def message(reader: Reader, place: str, value: Any) -> dict[str, Any]:
    known: dict[str, Read] = {
        "kind": partial(_kind, kinds=("message",)),
        "messageId": identifier,
        "contextId": maybe_id,
        "taskId": maybe_id,
        "role": role,
        "parts": parts,
        "metadata": struct,
        "extensions": Reader.texts,
        "referenceTaskIds": Reader.texts,
    }
    found = reader.fields(place, value, known, required=("messageId", "role", "parts"))
    return {name: one for name, one in found.items() if name != "kind" and one != ""}


def role(reader: Reader, place: str, value: Any) -> str:
    if value == "agent":
        reader.wrong(place, "Who sends a message to an agent is user.")
        return "ROLE_USER"
    return SIDES[reader.choice(place, value, ("user",))]


def parts(reader: Reader, place: str, value: Any, *, read: Read | None = None) -> list[dict[str, Any]]:
    found = [
        (read or part)(reader, f"{place}[{index}]", one)
        for index, one in enumerate(reader.items(place, value, most=requests.MOST_PARTS))
    ]
    if isinstance(value, list) and not found:
        reader.wrong(place, "Give at least one part.")
    return found


def part(reader: Reader, place: str, value: Any) -> dict[str, Any]:
    known: dict[str, Read] = {
        "kind": partial(_kind, kinds=CONTENTS),
        "text": partial(Reader.text, most=LONGEST_TEXT),
        "file": file,
        "data": struct,
        "metadata": struct,
    }
    found = reader.fields(place, value, known)
    return content(reader, place, value, found, found.get("kind"))


def content(reader: Reader, place: str, value: Any, found: Mapping[str, Any], kind: str | None) -> dict[str, Any]:
    """What was read of a part, in 1.0's words: one content, of the kind that it is said to be."""
    given = [name for name in CONTENTS if name in found]
    if isinstance(value, Mapping) and (len(given) != 1 or kind not in {None, given[0]}):
        wanted = f"{kind}, as its kind says" if kind else f"exactly one of {', '.join(CONTENTS)}"
        reader.wrong(place, f"Give {wanted}.")
    metadata = found.get("metadata", {})
    if "data" in found:
        data, metadata = words.unboxed(found["data"], metadata)
        read = {"data": data}
    else:
        read = {"text": found["text"]} if "text" in found else dict(found.get("file", {}))
    return {**read, "metadata": metadata} if metadata else read


def file(reader: Reader, place: str, value: Any) -> dict[str, Any]:
    known: dict[str, Read] = {
        "bytes": requests.raw,
        "uri": partial(Reader.text, most=LONGEST_URL),
        "mimeType": requests.media_type,
        "name": partial(Reader.text, most=LONGEST_NAME),
    }
    return one_file(reader, place, value, reader.fields(place, value, known), ("bytes", "uri"))


def one_file(
    reader: Reader, place: str, value: Any, found: Mapping[str, Any], names: tuple[str, str]
) -> dict[str, Any]:  # fmt: skip
    """A file's content or its place. An empty text beside the other one is as good as none."""
    given = [name for name in names if name in found]
    given = [name for name in given if found[name] != ""] or given[:1]
    if isinstance(value, Mapping) and len(given) != 1:
        reader.wrong(place, f"Give either {' or '.join(names)}.")
    read = {{names[0]: "raw", names[1]: "url"}[name]: found[name] for name in given}
    more = {"filename": found.get("name", ""), "mediaType": found.get("mimeType", "")}
    return {**read, **{name: one for name, one in more.items() if one}}


def configuration(reader: Reader, place: str, value: Any) -> dict[str, Any]:
    known: dict[str, Read] = {
        "acceptedOutputModes": Reader.texts,
        "historyLength": Reader.number,
        "pushNotificationConfig": push_config,
        "blocking": Reader.flag,
    }
    return configured(reader.fields(place, value, known), "pushNotificationConfig")


def configured(found: Mapping[str, Any], push: str) -> dict[str, Any]:
    read = words.kept(found, "acceptedOutputModes", "historyLength")
    if push in found:
        read["taskPushNotificationConfig"] = found[push]
    if "blocking" in found:
        read["returnImmediately"] = not found["blocking"]
    return read


def push_config(reader: Reader, place: str, value: Any) -> dict[str, Any]:
    known = {**requests.PUSH_CONFIG, "authentication": authentication}
    found = reader.fields(place, value, {name: known[name] for name in known if name != "taskId"}, required=("url",))
    return {name: one for name, one in found.items() if one not in ("", {})}


def authentication(reader: Reader, place: str, value: Any) -> dict[str, Any]:
    """The first of the schemes: it is one that a callback is sent with."""
    known: dict[str, Read] = {"schemes": schemes, "credentials": requests.header_value}
    found = reader.fields(place, value, known)
    if not found.get("schemes"):
        if found.get("credentials"):
            reader.wrong(f"{place}.schemes", "Give the scheme that the credentials are for.")
        return {}
    return {"scheme": found["schemes"][0], **words.kept(found, "credentials")}


def schemes(reader: Reader, place: str, value: Any) -> list[str]:
    given = reader.items(place, value, most=10)
    return [requests.scheme_name(reader, f"{place}[{index}]", one) for index, one in enumerate(given)]


def _kind(reader: Reader, place: str, value: Any, *, kinds: tuple[str, ...]) -> str:
    return reader.choice(place, value, kinds)


def _read(params: Params, known: Mapping[str, Read], *required: str, without: tuple[str, ...] = ()) -> dict[str, Any]:
    found = requests.read(params, known, *required)
    return {name: one for name, one in found.items() if name not in without}


READERS: dict[str, Callable[[Params], dict[str, Any]]] = {
    "SendMessage": read_send_message,
    "SendStreamingMessage": read_send_message,
    "GetTask": read_get_task,
    "CancelTask": read_cancel_task,
    "SubscribeToTask": read_subscribe,
    "CreateTaskPushNotificationConfig": read_create_push_config,
    "GetTaskPushNotificationConfig": read_push_config,
    "ListTaskPushNotificationConfigs": read_list_push_configs,
    "DeleteTaskPushNotificationConfig": lambda params: read_push_config(params, CONFIG_ID),
    "GetExtendedAgentCard": read_extended_card,
}
