"""The events of a task as lines: what happened, when, after how long."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from a2a import parts
from a2a.admin.tasks_content import Piece, pieces
from a2a.admin.tasks_hub import span
from a2a.choices import EventKind, TaskState
from a2a.models import TaskEvent
from common.console import badges
from common.console.badges import Badge

Body = Mapping[str, Any]
WORKING = badges.of(TaskState.WORKING)
NOBODY: Mapping[int, str] = {}


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


def lines(
    events: list[TaskEvent],
    *,
    sent_by: str,
    answered_by: Mapping[int, str] = NOBODY,
    through: str = "",
    taken_by: str = "",
) -> list[Line]:
    """In the order of their numbers; the first of a page may have another before it.

    What it was sent through, and who first took it, are no events: they are said beside those that they led to.
    """
    before = [None, *(event.at for event in events[:-1])]
    spoke = {1: sent_by, **answered_by}
    found = [_line(event, last, spoke.get(event.seq, "")) for event, last in zip(events, before, strict=True)]
    if not found or found[0].seq != 1:
        return found
    found[0] = _saying(found[0], through)
    begun = next((at for at, line in enumerate(found) if line.badge == WORKING), None)
    if begun is not None and not found[begun].words:
        found[begun] = _saying(found[begun], taken_by)
    return found


def _saying(line: Line, more: str) -> Line:
    return replace(line, words=", ".join(filter(None, (line.words, more))))


def _line(event: TaskEvent, last: datetime | None, by: str) -> Line:
    badge, words, found = _READ[EventKind(event.kind)](event.body, by)
    after = span(last, event.at) if last is not None else ""
    return Line(event.seq, event.at, badge, words, tuple(found), after)


Read = tuple[Badge, str, list[Piece]]


def _task(body: Body, by: str) -> Read:
    state = _state(body["task"]["status"]["state"])
    return state, f"sent by {by}", []


def _status(body: Body, _by: str) -> Read:
    told = body["statusUpdate"]
    said = told["status"].get("message")
    why = told.get("metadata", {})
    # What it failed of is often what its agent said last.
    names = ("error_code",) if parts.said_in(said) == why.get("error_message") else ("error_code", "error_message")
    words = ": ".join(str(why[name]) for name in names if why.get(name))
    return _state(told["status"]["state"]), words, pieces(said["parts"]) if said else []


def _artifact(body: Body, _by: str) -> Read:
    told = body["artifactUpdate"]
    made = told["artifact"]
    name, found = made.get("name") or made["artifactId"], pieces(made["parts"])
    if told.get("append") and not any(piece.body for piece in found):
        return badges.find("a2a.EventKind", EventKind.ARTIFACT), f"end of {name}", []
    words = f"{'more of ' if told.get('append') else ''}{name}"
    return badges.find("a2a.EventKind", EventKind.ARTIFACT), words, found


def _message(body: Body, by: str) -> Read:
    """What the agent says is in its statuses: this is of who asked it."""
    found = pieces(body["message"]["parts"])
    return badges.find("a2a.EventKind", EventKind.MESSAGE), f"by {by}" if by else "", found


def _state(said: str) -> Badge:
    """Of the protocol's word for it."""
    return badges.find("a2a.TaskState", said.removeprefix("TASK_STATE_").lower())


_READ: dict[EventKind, Callable[[Body, str], Read]] = {
    EventKind.TASK: _task,
    EventKind.STATUS: _status,
    EventKind.ARTIFACT: _artifact,
    EventKind.MESSAGE: _message,
}
