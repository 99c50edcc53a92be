"""What a remote agent says, as changes of its task: without the task, and so before anything is locked."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from a2a import parts, writer
from a2a.changes import Made, Status
from a2a.choices import TaskState
from a2a.remote import reading
from a2a.remote.reading import Item
from a2a.remote.troubles import LONGEST_SAID, Code
from common.ids import uuid7
from nhi.audit import sanitization

BACKWARDS = frozenset({TaskState.SUBMITTED})


@dataclass(frozen=True)
class Told:
    """One thing that was said, and what it changes where it is news."""

    item: Item
    made: tuple[Made, ...] = ()
    status: Status | None = None


@dataclass(frozen=True, kw_only=True)
class Rest(Made):
    """What is new of an artifact, after as many parts of it as are known."""

    whole: Made
    known: int
    append: bool = True

    @cached_property
    def shown(self) -> Any:
        return {**self.whole.shown, "parts": self.whole.shown["parts"][self.known :]}


def told(item: Item) -> Told:
    if "message" in item:
        found = Told(item, (_answered(item["message"]),))
    elif "artifactUpdate" in item:
        update = item["artifactUpdate"]
        found = Told(item, (Made(update["artifact"], update["append"], update["lastChunk"]),))
    else:
        said = item.get("task") or item["statusUpdate"]
        made = tuple(Made(one) for one in said.get("artifacts", ()))
        found = Told(item, made, _as_status(said["status"], said.get("metadata")))
    # To find what may not be kept takes as long as it is.
    writer.prepare(*found.made, *([found.status] if found.status else ()))
    return found


def _answered(message: Mapping[str, Any]) -> Made:
    """An agent that makes no task of it: what it said is the result."""
    extras = {name: message[name] for name in ("metadata", "extensions") if name in message}
    return Made({**parts.artifact(message["parts"]), **extras})


def _as_status(told: Mapping[str, Any], metadata: Mapping[str, Any] | None) -> Status | None:
    state = reading.state(told)
    if state is None or state in BACKWARDS:
        return None
    said = told.get("message")
    message = {**said, "messageId": said["messageId"] or str(uuid7())} if said else None
    if state == TaskState.REJECTED:
        return Status(state, message, "rejected", _words(said, metadata) or "The remote agent rejected the task.")
    if state == TaskState.FAILED:
        return Status(state, message, Code.FAILED, _words(said, metadata) or "The remote agent failed at the task.")
    if state == TaskState.CANCELED:
        return Status(state, message, Code.CANCELED, _words(said, metadata) or "The remote agent cancelled the task.")
    return Status(state, message)


def _words(said: Mapping[str, Any] | None, metadata: Mapping[str, Any] | None) -> str:
    """Why, in one line: what its message says, or what another Gatehouse adds."""
    texts = [part["text"] for part in (said or {}).get("parts", []) if "text" in part]
    told = (metadata or {}).get("error_message")
    words = " ".join(texts) or (told if isinstance(told, str) else "")
    return sanitization.single_line(words, LONGEST_SAID)
