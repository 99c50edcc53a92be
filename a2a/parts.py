"""Messages and artifacts of the protocol, in the shape that is stored: A2A 1.0's JSON."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from a2a.choices import Role, TaskState
from common.ids import uuid7

JSON = "application/json"
RESULT = "result"
#: The type of a part that says none.
USUAL = {"text": "text/plain", "data": JSON, "raw": "application/octet-stream", "url": "application/octet-stream"}
Part = Mapping[str, Any]
Message = Mapping[str, Any]


def data(value: Any) -> Part:
    return {"data": value, "mediaType": JSON}


def text(said: str) -> Part:
    return {"text": said}


def message(role: Role, parts: Sequence[Part], **more: Any) -> dict[str, Any]:
    return {"messageId": str(uuid7()), "role": role_of(role), "parts": list(parts), **more}


def role_of(role: Role) -> str:
    return f"ROLE_{role.upper()}"


def message_of_agent(said: str) -> dict[str, Any] | None:
    """None where it said nothing."""
    return message(Role.AGENT, [text(said)]) if said else None


def artifact(parts: Sequence[Part], *, artifact_id: str = RESULT, name: str = RESULT) -> dict[str, Any]:
    return {"artifactId": artifact_id, "name": name, "parts": list(parts)}


def task(
    pk: UUID, *, context_id: str, status: Mapping[str, Any], history: Sequence[Message], metadata: Mapping[str, Any]
) -> dict[str, Any]:
    """A task, without what was made in it."""
    told = {"id": str(pk), "contextId": context_id, "status": status, "history": list(history)}
    return {**told, "metadata": metadata} if metadata else told


def moment(at: datetime) -> str:
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def status(state: TaskState, at: str, said: Message | None) -> dict[str, Any]:
    told = {"state": f"TASK_STATE_{state.upper()}", "timestamp": at}
    return told if said is None else {**told, "message": said}


def placed(what: Message, *, task_id: UUID, context_id: str) -> dict[str, Any]:
    """A message says which task it belongs to."""
    return {**what, "taskId": str(task_id), "contextId": context_id}


def plain(parts: Sequence[Part]) -> Any:
    """The same without the protocol around it: one piece of data is itself, one text is `{"text": …}`."""
    if len(parts) == 1 and "data" in parts[0]:
        return parts[0]["data"]
    if len(parts) == 1 and "text" in parts[0]:
        return {"text": parts[0]["text"]}
    return {"parts": list(parts)}


def result_of(artifacts: Sequence[Mapping[str, Any]]) -> Any:
    """What a task came to, in one value; None where its agent made nothing."""
    if not artifacts:
        return None
    if len(artifacts) == 1:
        return plain(artifacts[0]["parts"])
    return {"artifacts": [{"name": one.get("name", ""), "value": plain(one["parts"])} for one in artifacts]}


def said_in(what: Message | None) -> str:
    """The text of a message, for people."""
    if what is None:
        return ""
    return "\n".join(str(part["text"]) for part in what["parts"] if "text" in part)


def media_of(parts: Sequence[Part]) -> list[str]:
    """The media type of each part, as it says or as its kind has it."""
    return [str(part.get("mediaType") or next(kind for name, kind in USUAL.items() if name in part)) for part in parts]
