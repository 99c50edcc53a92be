"""The output of a run as a stream of events, which can be gone on with from any place in it."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from common.api.fields import Moment
from common.api.operations import Media
from supervisor.choices import ExecutionState
from supervisor.models import Execution, OutputChunk

#: Pieces that are read at a time; a piece is what was written within a third of a second, 1 MiB at most.
MOST = 50
TYPE = "text/event-stream"
ALIVE = ": alive\n\n"
PIECE = '{"seq": 1, "stream": "out", "at": "2026-11-18T10:00:01.000000Z", "text": "Lines: 1\\n"}'
EVENT = {
    "type": "object",
    "properties": {
        "id": {"type": "string"},
        "event": {"type": "string", "enum": ["output", "state", "end"]},
        "data": {"type": "string", "contentMediaType": "application/json"},
    },
    "required": ["event", "data"],
}
STREAM = Media(TYPE, {"id": "1", "event": "output", "data": PIECE}, EVENT)


@dataclass(frozen=True)
class Place:
    """How far a reader is: the number of the last piece, and the state that was told last."""

    after: int = 0
    told: tuple[str, str | None] | None = None


@dataclass(frozen=True)
class News:
    state: str
    status: str | None
    pieces: Sequence[OutputChunk]

    @property
    def are_all(self) -> bool:
        """Whether these are all the pieces that there are by now."""
        return len(self.pieces) < MOST

    @property
    def are_last(self) -> bool:
        """Nothing comes after these: no piece is written later than the status."""
        return self.are_all and is_over(self.state, self.status)


def is_over(state: str, status: str | None) -> bool:
    """Done, and nothing of it left: what its caller may start next finds its place free."""
    return status is not None and state == ExecutionState.IDLE


def read(execution_id: UUID, after: int) -> News:
    # The state first: what is read after it is at least as new.
    state, status = Execution.objects.values_list("state", "status").get(pk=execution_id)
    pieces = OutputChunk.objects.filter(execution=execution_id, seq__gt=after).order_by("seq")
    return News(state, status, list(pieces[:MOST]))


def told(news: News, place: Place) -> tuple[str, Place]:
    """The events, and how far their reader then is."""
    said = "".join(_event("output", _of(piece), piece.seq) for piece in news.pieces)
    after = news.pieces[-1].seq if news.pieces else place.after
    state = {"state": news.state, "status": news.status}
    if not news.are_all:
        return said, Place(after, place.told)
    if place.told != (news.state, news.status):
        said += _event("state", state)
    if news.are_last:
        said += _event("end", state)
    return said, Place(after, (news.state, news.status))


def so_far(execution_id: UUID, after: int) -> Iterator[str]:
    """What there is by now, and no more."""
    place, more = Place(after), True
    while more:
        news = read(execution_id, place.after)
        said, place = told(news, place)
        more = not news.are_all
        yield said


def _of(piece: OutputChunk) -> dict[str, Any]:
    at = Moment().to_representation(piece.at)
    return {"seq": piece.seq, "stream": piece.stream, "at": at, "text": piece.text}


def _event(name: str, data: dict[str, Any], number: int | None = None) -> str:
    head = "" if number is None else f"id: {number}\n"
    return f"{head}event: {name}\ndata: {json.dumps(data)}\n\n"
