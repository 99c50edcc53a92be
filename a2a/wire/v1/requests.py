"""Requests of A2A 1.0, read from JSON into one shape: camelCase, checked, without what the protocol does not know."""

import base64
import binascii
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any

from a2a.wire.reading import Read, Reader

LONGEST_ID = 200
MOST_PARTS = 100
CONTENTS = ("text", "raw", "url", "data")
STATES = tuple(
    f"TASK_STATE_{name}"
    for name in (
        "SUBMITTED", "WORKING", "COMPLETED", "FAILED", "CANCELED", "INPUT_REQUIRED", "REJECTED", "AUTH_REQUIRED",
    )
)  # fmt: skip
#: What names an agent where several share a URL. Here each has its own, so it is read and not looked at.
TENANT = "tenant"
_MEDIA = re.compile(r"[\w.+-]+/[\w.+*-]+(?:\s*;.*)?", re.ASCII)
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}")

Params = Mapping[str, Any]


def send_message(params: Params) -> dict[str, Any]:
    return read(params, {"message": message, "configuration": configuration, "metadata": struct}, "message")


def get_task(params: Params) -> dict[str, Any]:
    return read(params, {"id": identifier, "historyLength": Reader.number}, "id")


def list_tasks(params: Params) -> dict[str, Any]:
    known: dict[str, Read] = {
        "contextId": identifier,
        "status": lambda reader, place, value: reader.choice(place, value, STATES),
        "pageSize": partial(_number, least=1, most=100),
        "pageToken": partial(_text, most=500),
        "historyLength": Reader.number,
        "statusTimestampAfter": moment,
        "includeArtifacts": Reader.flag,
    }
    return read(params, known)


def cancel_task(params: Params) -> dict[str, Any]:
    return read(params, {"id": identifier, "metadata": struct}, "id")


def subscribe(params: Params) -> dict[str, Any]:
    return read(params, {"id": identifier}, "id")


def create_push_config(params: Params) -> dict[str, Any]:
    return read(params, PUSH_CONFIG, "taskId", "url")


def push_config(params: Params) -> dict[str, Any]:
    return read(params, {"taskId": identifier, "id": identifier}, "taskId", "id")


def list_push_configs(params: Params) -> dict[str, Any]:
    known: dict[str, Read] = {
        "taskId": identifier,
        "pageSize": partial(_number, least=1, most=100),
        "pageToken": partial(_text, most=500),
    }
    return read(params, known, "taskId")


def extended_card(params: Params) -> dict[str, Any]:
    return read(params, {})


def identifier(reader: Reader, place: str, value: Any) -> str:
    found = reader.text(place, value, most=LONGEST_ID)
    if isinstance(value, str) and not found.strip():
        reader.wrong(place, "Give an id.")
    if not found.isprintable():
        reader.wrong(place, "Leave out control characters.")
    return found


def message(reader: Reader, place: str, value: Any) -> dict[str, Any]:
    known: dict[str, Read] = {
        "messageId": identifier,
        "contextId": maybe_id,
        "taskId": maybe_id,
        "role": lambda reader, place, value: reader.choice(place, value, ("ROLE_USER", "ROLE_AGENT")),
        "parts": parts,
        "metadata": struct,
        "extensions": Reader.texts,
        "referenceTaskIds": Reader.texts,
    }
    found = reader.fields(place, value, known, required=("messageId", "role", "parts"))
    if found.get("role") == "ROLE_AGENT":
        reader.wrong(f"{place}.role", "Who sends a message to an agent is ROLE_USER.")
    return {name: one for name, one in found.items() if one != ""}


def parts(reader: Reader, place: str, value: Any) -> list[dict[str, Any]]:
    found = [
        part(reader, f"{place}[{index}]", one)
        for index, one in enumerate(reader.items(place, value, most=MOST_PARTS))
    ]  # fmt: skip
    if isinstance(value, list) and not found:
        reader.wrong(place, "Give at least one part.")
    return found


def artifact(reader: Reader, place: str, value: Any) -> dict[str, Any]:
    known: dict[str, Read] = {
        "artifactId": identifier,
        "name": partial(_text, most=200),
        "description": partial(_text, most=4000),
        "parts": parts,
        "metadata": struct,
        "extensions": Reader.texts,
    }
    return reader.fields(place, value, known, required=("artifactId", "parts"))


def part(reader: Reader, place: str, value: Any) -> dict[str, Any]:
    if isinstance(value, Mapping) and "data" in value and value["data"] is None:
        # Null is data like any other; everywhere else it says that nothing is there.
        return {**part(reader, place, {**value, "data": 0}), "data": None}
    known: dict[str, Read] = {
        "text": partial(_text, most=10 * 1024 * 1024),
        "raw": raw,
        "url": partial(_text, most=4000),
        "data": lambda _reader, _place, value: value,
        "metadata": struct,
        "filename": partial(_text, most=500),
        "mediaType": media_type,
    }
    found = reader.fields(place, value, known)
    if isinstance(value, Mapping) and len([name for name in CONTENTS if name in found]) != 1:
        reader.wrong(place, f"Give exactly one of {', '.join(CONTENTS)}.")
    return found


def raw(reader: Reader, place: str, value: Any) -> str:
    """Base64 in its usual alphabet, whichever the caller used."""
    text = value.replace("-", "+").replace("_", "/") if isinstance(value, str) else ""
    try:
        read = base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError):
        reader.wrong(place, "Give base64.")
        return ""
    if not isinstance(value, str):
        reader.wrong(place, "Give base64.")
    return base64.b64encode(read).decode()


def media_type(reader: Reader, place: str, value: Any) -> str:
    found = reader.text(place, value, most=200)
    if found and not _MEDIA.fullmatch(found):
        reader.wrong(place, "Give a media type, such as text/plain.")
    return found


def configuration(reader: Reader, place: str, value: Any) -> dict[str, Any]:
    known: dict[str, Read] = {
        "acceptedOutputModes": Reader.texts,
        "historyLength": Reader.number,
        "returnImmediately": Reader.flag,
        "taskPushNotificationConfig": _push_config,
    }
    return reader.fields(place, value, known)


def struct(reader: Reader, place: str, value: Any) -> dict[str, Any]:
    return dict(reader.object(place, value))


def moment(reader: Reader, place: str, value: Any) -> str:
    """A time with its zone, told in UTC."""
    try:
        read = datetime.fromisoformat(value) if isinstance(value, str) else None
        told = read.astimezone(UTC) if read is not None and read.tzinfo is not None else None
    except (ValueError, OverflowError):
        told = None
    if told is None:
        reader.wrong(place, "Give a time such as 2026-03-12T14:00:00Z.")
        return ""
    return told.isoformat().replace("+00:00", "Z")


def authentication(reader: Reader, place: str, value: Any) -> dict[str, Any]:
    known: dict[str, Read] = {"scheme": scheme_name, "credentials": header_value}
    return reader.fields(place, value, known, required=("scheme",))


def _push_config(reader: Reader, place: str, value: Any) -> dict[str, Any]:
    return reader.fields(place, value, PUSH_CONFIG, required=("url",))


def scheme_name(reader: Reader, place: str, value: Any) -> str:
    found = reader.text(place, value, most=64)
    if found and not _HEADER.fullmatch(found):
        reader.wrong(place, "Give the name of a scheme, such as Bearer.")
    return found


def header_value(reader: Reader, place: str, value: Any) -> str:
    """What goes into a header as it is: one line of visible ASCII."""
    found = reader.text(place, value, most=4000)
    if not (found.isascii() and found.isprintable()):
        reader.wrong(place, "Use printable ASCII characters.")
    return found


def maybe_id(reader: Reader, place: str, value: Any) -> str:
    """An empty text is as good as none in the protocol's own JSON."""
    return identifier(reader, place, value) if value != "" else ""


PUSH_CONFIG: dict[str, Read] = {
    "id": maybe_id,
    "taskId": maybe_id,
    "url": partial(lambda reader, place, value, most: reader.text(place, value, most=most), most=2000),
    "token": header_value,
    "authentication": authentication,
}


def _text(reader: Reader, place: str, value: Any, *, most: int) -> str:
    return reader.text(place, value, most=most)


def _number(reader: Reader, place: str, value: Any, *, least: int, most: int) -> int:
    return reader.number(place, value, least=least, most=most)


def read(params: Params, known: Mapping[str, Read], *required: str) -> dict[str, Any]:
    reader = Reader()
    found = reader.fields("", params, {TENANT: partial(_text, most=LONGEST_ID), **known}, required=required)
    reader.settle()
    return found


READERS: dict[str, Callable[[Params], dict[str, Any]]] = {
    "SendMessage": send_message,
    "SendStreamingMessage": send_message,
    "GetTask": get_task,
    "ListTasks": list_tasks,
    "CancelTask": cancel_task,
    "SubscribeToTask": subscribe,
    "CreateTaskPushNotificationConfig": create_push_config,
    "GetTaskPushNotificationConfig": push_config,
    "ListTaskPushNotificationConfigs": list_push_configs,
    "DeleteTaskPushNotificationConfig": push_config,
    "GetExtendedAgentCard": extended_card,
}
