"""The run and the task that a call was made in, where a higher app knows them: their names, and their pages."""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from common.ids import parse_uuid
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
    """By the id of the run. A call that no run made is not asked about."""
    ids = {call.execution_id for call in calls} - {None}
    return {run: within for source in _sources for run, within in source(actor, ids).items()} if ids else {}


#: The task of this id, if the actor sees it: its name, and the page of all that it led to.
TaskSource = Callable[[Actor, UUID], Within | None]
_task_sources: list[TaskSource] = []


def add_tasks(source: TaskSource) -> None:
    _task_sources.append(source)


def task(actor: Actor, named: str | UUID | None) -> Within | None:
    known = parse_uuid(str(named)) if named else None
    found = (source(actor, known) for source in _task_sources) if known is not None else iter(())
    return next((within for within in found if within is not None), None)
