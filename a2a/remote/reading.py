"""What a remote agent says, in 1.0's shape, whichever version and spelling it has.

Taken liberally: things with a `kind` and without, camelCase and snake_case, states of both versions. What has another
type than it must have is refused: it would be stored and shown.
"""

import re
from collections.abc import Mapping
from typing import Any

from a2a.choices import TERMINAL, TaskState
from a2a.wire.v03 import words

LONGEST_ID, LONGEST_ARTIFACT_ID, LONGEST_NAME = 500, 200, 500
MOST_PARTS = 10_000
UNKNOWN = "TASK_STATE_UNSPECIFIED"
SPELLED = {"cancelled": TaskState.CANCELED}
#: What each kind of 0.3 is called in 1.0.
KINDS = {"task": "task", "message": "message", "status-update": "statusUpdate", "artifact-update": "artifactUpdate"}
Item = dict[str, Any]


class Unreadable(ValueError):
    """Why it is not what the protocol says, as the end of a sentence."""


def item(said: Any, *, old: bool = False) -> Item:
    """Exactly one of `task`, `message`, `statusUpdate`, `artifactUpdate`. `old`: things without a `kind` are 0.3's."""
    value = _object(said, "the answer")
    name, held = _told(value)
    readers = {"task": task, "message": message, "statusUpdate": _status_update, "artifactUpdate": _artifact_update}
    return {name: readers[name](_object(held, name), old=old)}


def task(value: Mapping[str, Any], *, old: bool = False) -> Item:
    found = _get(value, "artifacts")
    made = [] if found is None else found
    if not isinstance(made, list):
        raise Unreadable("the artifacts of a task are no list")
    read = {"id": _id(value, "id"), "status": _status(_get(value, "status"), old=old)}
    if not read["id"]:
        raise Unreadable("a task has no id")
    return {**read, "contextId": _id(value, "contextId"), "artifacts": [artifact(one, old=old) for one in made]}


def message(value: Mapping[str, Any], *, old: bool = False) -> Item:
    read = {"messageId": _id(value, "messageId"), "role": "ROLE_AGENT", "parts": _parts(value, old=old)}
    ids = {name: found for name in ("taskId", "contextId") if (found := _id(value, name))}
    return {**read, **ids, **_extras(value)}


def artifact(said: Any, *, old: bool = False) -> Item:
    value = _object(said, "an artifact")
    found = _id(value, "artifactId", LONGEST_ARTIFACT_ID)
    if not found:
        raise Unreadable("an artifact has no id")
    words = {name: _text(value, name, LONGEST_NAME) for name in ("name", "description") if _get(value, name)}
    return {"artifactId": found, **words, "parts": _parts(value, old=old), **_extras(value)}


def state(said: Mapping[str, Any]) -> TaskState | None:
    """Of a status that was read here; None where the agent does not know."""
    word = str(said["state"]).removeprefix("TASK_STATE_").lower()
    return TaskState(word) if word in TaskState.values else None


def ends(one: Item) -> bool:
    """Whether nothing can follow."""
    if "message" in one:
        return True
    told = one.get("task") or one.get("statusUpdate")
    return told is not None and state(told["status"]) in TERMINAL


def _told(value: Mapping[str, Any]) -> tuple[str, Any]:
    kind = value.get("kind")
    if isinstance(kind, str) and kind in KINDS:
        return KINDS[kind], value
    for name in KINDS.values():
        if isinstance(held := _get(value, name), Mapping):
            return name, held
    if isinstance(value.get("msg"), Mapping):
        return "message", value["msg"]
    if "status" in value and "id" in value:
        return "task", value
    if _get(value, "messageId") is not None:
        return "message", value
    raise Unreadable("it is neither a task nor a message nor news of one")


def _status_update(value: Mapping[str, Any], *, old: bool) -> Item:
    ids = {"taskId": _id(value, "taskId"), "contextId": _id(value, "contextId")}
    return {**ids, "status": _status(_get(value, "status"), old=old), **_extras(value)}


def _artifact_update(value: Mapping[str, Any], *, old: bool) -> Item:
    ids = {"taskId": _id(value, "taskId"), "contextId": _id(value, "contextId")}
    made = artifact(_get(value, "artifact"), old=old)
    last = _get(value, "lastChunk")
    return {**ids, "artifact": made, "append": _get(value, "append") is True, "lastChunk": last is True}


def _status(said: Any, *, old: bool) -> Item:
    value = _object(said, "a status")
    read: Item = {"state": _state(value.get("state")), "timestamp": _text(value, "timestamp", 100)}
    spoken = value.get("message", value.get("update"))
    return read if spoken is None else {**read, "message": message(_object(spoken, "a status message"), old=old)}


def _state(said: Any) -> str:
    word = re.sub(r"[- ]", "_", str(said).lower()).removeprefix("task_state_")
    found = SPELLED.get(word) or (word if word in TaskState.values else None)
    return f"TASK_STATE_{found.upper()}" if found else UNKNOWN


def _parts(value: Mapping[str, Any], *, old: bool) -> list[Item]:
    said = _get(value, "parts")
    if said is None:
        said = value.get("content")
    said = [] if said is None else said
    if not isinstance(said, list) or len(said) > MOST_PARTS:
        raise Unreadable(f"its parts are no list of at most {MOST_PARTS}")
    return [_part(_object(one, "a part"), old=old) for one in said]


def _part(value: Mapping[str, Any], *, old: bool) -> Item:
    names = {"filename": ("filename",), "mediaType": ("mediaType", "mimeType")}
    rest = {to: found for to, said in names.items() if (found := _first(value, said))}
    rest |= {"metadata": value["metadata"]} if isinstance(value.get("metadata"), dict) else {}
    if "file" in value:
        return {**_file(_object(value["file"], "a file")), **rest}
    if "data" in value:
        return _data(value, rest, old=old)
    for name in ("text", "raw", "url"):
        if isinstance(value.get(name), str):
            return {name: value[name], **rest}
    raise Unreadable("a part holds neither text nor data nor a file")


def _file(value: Mapping[str, Any]) -> Item:
    rest = {
        to: found
        for to, said in {"filename": ("name",), "mediaType": ("mimeType", "mediaType")}.items()
        if (found := _first(value, said))
    }
    if (raw := _first(value, ("bytes",))) is not None:
        return {"raw": raw, **rest}
    if (raw := _first(value, ("fileWithBytes",))) is not None:
        return {"raw": words.unwrapped(raw), **rest}
    if (url := _first(value, ("uri", "fileWithUri"))) is not None:
        return {"url": url, **rest}
    raise Unreadable("a file has neither bytes nor a URI")


def _data(value: Mapping[str, Any], rest: Item, *, old: bool) -> Item:
    """0.3's ProtoJSON wraps the object once more; the official SDK wraps what is no object, and says so."""
    data, metadata = value["data"], rest.get("metadata", {})
    if old and "kind" not in value and isinstance(data, dict):
        data = data.get("data", data)
    if metadata.get("data_part_compat") is True and isinstance(data, dict):
        data = data.get("value")
        rest = {**rest, "metadata": {name: said for name, said in metadata.items() if name != "data_part_compat"}}
    return {"data": data, **{name: said for name, said in rest.items() if said}}


def _extras(value: Mapping[str, Any]) -> Item:
    metadata, extensions = value.get("metadata"), value.get("extensions")
    kept: Item = {"metadata": metadata} if isinstance(metadata, dict) and metadata else {}
    return {**kept, "extensions": extensions} if isinstance(extensions, list) and extensions else kept


def _first(value: Mapping[str, Any], names: tuple[str, ...]) -> str | None:
    return next((said for name in names if isinstance(said := _get(value, name), str)), None)


def _id(value: Mapping[str, Any], name: str, most: int = LONGEST_ID) -> str:
    return _text(value, name, most)


def _text(value: Mapping[str, Any], name: str, most: int) -> str:
    said = _get(value, name)
    if said is None:
        return ""
    if not isinstance(said, str) or len(said) > most:
        raise Unreadable(f"its {name} is no text of at most {most} characters")
    return said


def _get(value: Mapping[str, Any], name: str) -> Any:
    found = value.get(name)
    return value.get(re.sub(r"([A-Z])", r"_\1", name).lower()) if found is None else found


def _object(said: Any, what: str) -> Mapping[str, Any]:
    if not isinstance(said, Mapping):
        raise Unreadable(f"{what} is no object")
    return said
