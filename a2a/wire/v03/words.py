"""What 0.3 calls the states and the sides of a conversation, in its JSON and in its protocol buffers."""

import base64
import binascii
from collections.abc import Mapping
from typing import Any

#: 1.0's states, as the JSON of 0.3 has them.
STATES = {
    "TASK_STATE_SUBMITTED": "submitted",
    "TASK_STATE_WORKING": "working",
    "TASK_STATE_INPUT_REQUIRED": "input-required",
    "TASK_STATE_AUTH_REQUIRED": "auth-required",
    "TASK_STATE_COMPLETED": "completed",
    "TASK_STATE_FAILED": "failed",
    "TASK_STATE_CANCELED": "canceled",
    "TASK_STATE_REJECTED": "rejected",
}
UNKNOWN = "unknown"
ROLES = {"ROLE_USER": "user", "ROLE_AGENT": "agent"}
#: In protocol buffers only this one has another name.
PROTO_STATES = {"TASK_STATE_CANCELED": "TASK_STATE_CANCELLED"}

TERMINAL = frozenset({"TASK_STATE_COMPLETED", "TASK_STATE_FAILED", "TASK_STATE_CANCELED", "TASK_STATE_REJECTED"})
#: After which a stream that began with a message is closed: it is the caller's turn.
CALLERS_TURN = TERMINAL | {"TASK_STATE_INPUT_REQUIRED"}

#: 0.3 has only objects for data. Anything else stands in one, marked in the part's metadata as the official SDK does.
BOXED, VALUE = "data_part_compat", "value"


def boxed(part: Mapping[str, Any]) -> tuple[Mapping[str, Any], dict[str, Any]]:
    """A data part's object, and the part's metadata."""
    metadata = dict(part.get("metadata", {}))
    if isinstance(part["data"], Mapping):
        return part["data"], metadata
    return {VALUE: part["data"]}, {**metadata, BOXED: True}


def unboxed(data: Mapping[str, Any], metadata: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The data that an object stands for, and the metadata without the mark."""
    if metadata.get(BOXED) is True and set(data) == {VALUE}:
        return data[VALUE], {name: value for name, value in metadata.items() if name != BOXED}
    return data, dict(metadata)


def wrapped(raw: str) -> str:
    """A file's base64 as 0.3's protocol buffers have it: official software reads and writes the base64 of it there,
    though the .proto says that the bytes are the file's own."""
    return base64.b64encode(raw.encode()).decode()


def unwrapped(raw: str) -> str:
    """From either of both."""
    try:
        inside = base64.b64decode(raw)
        base64.b64decode(inside, validate=True)
    except (binascii.Error, ValueError):
        return raw
    return inside.decode()


def kept(body: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """Those of the fields that are there; both versions call them the same."""
    return {name: body[name] for name in names if name in body}
