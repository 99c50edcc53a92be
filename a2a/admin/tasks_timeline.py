"""The events of a task as lines: what happened, when, after how long."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from a2a import parts
from a2a.admin.tasks_content import Piece, pieces
from a2a.admin.tasks_hub import span
from a2a.choices import EventKind, Role
from a2a.models import TaskEvent
from common.admin import badges
from common.admin.badges import Badge

Body = Mapping[str, Any]


@dataclass(frozen=True)
class Line:
    seq: int
    at: datetime
    badge: Badge
    #: What it is about; text from elsewhere, like the pieces.
    words: str = ""
    pieces: tuple[Piece, ...] = ()
    #: Since the event before, where that is known.
    after: str = ""


def lines(events: list[TaskEvent], *, sent_by: str) -> list[Line]:
    """In the order of their numbers; the first of a page may have another before it."""
    before = [None, *(event.at for event in events[:-1])]
    return [_line(event, last, sent_by) for event, last in zip(events, before, strict=True)]


def _line(event: TaskEvent, last: datetime | None, sent_by: str) -> Line:
    badge, words, found = _READ[EventKind(event.kind)](event.body, sent_by)
    after = span(last, event.at) if last is not None else ""
    return Line(event.seq, event.at, badge, words, tuple(found), after)


Read = tuple[Badge, str, list[Piece]]


def _task(body: Body, sent_by: str) -> Read:
    state = _state(body["task"]["status"]["state"])
    return state, f"sent by {sent_by}", []


def _status(body: Body, _sent_by: str) -> Read:
    told = body["statusUpdate"]
    said = told["status"].get("message")
    why = told.get("metadata", {})
    # What it failed of is often what its agent said last.
    names = ("error_code",) if parts.said_in(said) == why.get("error_message") else ("error_code", "error_message")
    words = ": ".join(str(why[name]) for name in names if why.get(name))
    return _state(told["status"]["state"]), words, pieces(said["parts"]) if said else []


def _artifact(body: Body, _sent_by: str) -> Read:
    told = body["artifactUpdate"]
    made = told["artifact"]
    words = f"{'more of ' if told.get('append') else ''}{made.get('name') or made['artifactId']}"
    return badges.find("a2a.EventKind", EventKind.ARTIFACT), words, pieces(made["parts"])


def _message(body: Body, sent_by: str) -> Read:
    said = body["message"]
    own = said["role"] == f"ROLE_{Role.USER.upper()}"
    return badges.find("a2a.EventKind", EventKind.MESSAGE), f"by {sent_by}" if own else "", pieces(said["parts"])


def _state(said: str) -> Badge:
    """Of the protocol's word for it."""
    return badges.find("a2a.TaskState", said.removeprefix("TASK_STATE_").lower())


_READ: dict[EventKind, Callable[[Body, str], Read]] = {
    EventKind.TASK: _task,
    EventKind.STATUS: _status,
    EventKind.ARTIFACT: _artifact,
    EventKind.MESSAGE: _message,
}
