"""The run that a call was made in, where a higher app knows it: what it is called, and its page."""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from nhi.actors import Actor


@dataclass(frozen=True)
class Within:
    name: str
    url: str


#: Which of these ids are runs that the actor sees.
Source = Callable[[Actor, Collection[UUID]], dict[UUID, Within]]
_sources: list[Source] = []


def add(source: Source) -> None:
    _sources.append(source)


def of(actor: Actor, calls: Iterable[Any]) -> dict[UUID, Within]:
    """By the id of the run. A call outside of any run has the id of its request for one, and is not asked about."""
    ids = {call.run_id for call in calls if call.run_id != call.request_id}
    return {run: within for source in _sources for run, within in source(actor, ids).items()} if ids else {}
