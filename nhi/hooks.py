"""Where higher apps hang what only they know. Each fills these in its `AppConfig.ready()`."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from nhi.actors import Actor
from nhi.choices import OriginRole
from nhi.decisions.chains import TaskFacts
from nhi.decisions.types import Condition, Match
from nhi.models import Identity

#: What a higher app knows of one caller, target and arguments, for checks and explanations outside a call.
ConditionSource = Callable[[UUID, UUID, Any], tuple[Condition, ...]]


def nothing(_identity: Identity) -> int:
    return 0


def nothing_of(_identities: Sequence[Identity]) -> int:
    return 0


@dataclass(frozen=True)
class Ended:
    """How many things a stop step ended, and how many of them had not begun."""

    count: int
    unstarted: int = 0


@dataclass(frozen=True)
class StopStep:
    """One thing that ends when an identity is stopped. `run` is idempotent and returns how many it ended."""

    name: str
    run: Callable[[Identity], int | Ended]
    #: What `run` would end now of all of these, for the dialog that states its consequences.
    count: Callable[[Sequence[Identity]], int]
    #: What stays stopped when the identity is active again, for the dialog that activates it.
    remains: Callable[[Identity], int] = nothing
    #: Of what `count` counts, what only leaves a queue: nothing of it runs.
    unstarted: Callable[[Sequence[Identity]], int] = nothing_of


#: Stop steps by the name they have in the reply to a suspend.
stop_steps: dict[str, StopStep] = {}


def add_stop_step(step: StopStep) -> None:
    stop_steps[step.name] = step


#: Who is asked, in the order of the apps.
_condition_sources: list[ConditionSource] = []


def add_conditions(source: ConditionSource) -> None:
    if source not in _condition_sources:
        _condition_sources.append(source)


def conditions(caller_id: UUID, target_id: UUID, parameters: Any) -> tuple[Condition, ...]:
    return tuple(one for source in _condition_sources for one in source(caller_id, target_id, parameters))


#: The schemas by which a tool describes its arguments: the one that calls go by, and the one that waits for approval.
SchemaSource = Callable[[UUID], list[dict[str, Any]]]
_schema_sources: list[SchemaSource] = []


def describe_arguments(source: SchemaSource) -> None:
    _schema_sources[:] = [source]


def argument_schemas(tool_id: UUID) -> list[dict[str, Any]]:
    """None for a tool that no server has described yet."""
    return [schema for source in _schema_sources for schema in source(tool_id)]


#: What a higher app keeps by what changes here, and brings along in the same transaction.
IdentityListener = Callable[[Identity, frozenset[str], Actor], None]
GrantListener = Callable[[UUID, UUID], None]
_identity_listeners: list[IdentityListener] = []
_grant_listeners: list[GrantListener] = []


def on_identity_change(listener: IdentityListener) -> None:
    if listener not in _identity_listeners:
        _identity_listeners.append(listener)


def identity_changed(identity: Identity, changed: frozenset[str], actor: Actor) -> None:
    for listener in _identity_listeners:
        listener(identity, changed, actor)


def on_grant_replaced(listener: GrantListener) -> None:
    if listener not in _grant_listeners:
        _grant_listeners.append(listener)


def grant_replaced(old: UUID, new: UUID) -> None:
    for listener in _grant_listeners:
        listener(old, new)


#: What is left of the hour of a grant between identities, which counts tasks.
HourSource = Callable[[Match], Condition]
_hour_sources: list[HourSource] = []


def count_hours(source: HourSource) -> None:
    _hour_sources[:] = [source]


def hour(match: Match) -> tuple[Condition, ...]:
    return tuple(source(match) for source in _hour_sources)


#: The tasks of these ids; with an actor, those alone that it may see.
TaskSource = Callable[[Collection[UUID], Actor | None], Mapping[UUID, TaskFacts]]
_task_sources: list[TaskSource] = []


def know_tasks(source: TaskSource) -> None:
    _task_sources[:] = [source]


def tasks(ids: Collection[UUID], *, seen_by: Actor | None = None) -> Mapping[UUID, TaskFacts]:
    return _task_sources[0](ids, seen_by) if ids and _task_sources else {}


@dataclass(frozen=True)
class Waiting:
    """A call within a task that waits for a person."""

    approval_id: UUID
    task_id: UUID
    #: As its agent names it.
    tool: str
    expires_at: datetime


@dataclass(frozen=True)
class WaitListener:
    """Who is told that a call within a task waits, and that a person has decided about one."""

    waits: Callable[[Waiting], None]
    decided: Callable[[UUID], None]


_wait_listeners: list[WaitListener] = []


def on_wait(listener: WaitListener) -> None:
    if listener not in _wait_listeners:
        _wait_listeners.append(listener)


def call_waits(waiting: Waiting) -> None:
    for listener in _wait_listeners:
        listener.waits(waiting)


def call_decided(approval_id: UUID) -> None:
    for listener in _wait_listeners:
        listener.decided(approval_id)


@dataclass(frozen=True)
class Work:
    """Runs and tasks, by their ids."""

    runs: frozenset[UUID] = frozenset()
    tasks: frozenset[UUID] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.runs or self.tasks)

    def __or__(self, other: "Work") -> "Work":
        return Work(self.runs | other.runs, self.tasks | other.tasks)

    def __sub__(self, other: "Work") -> "Work":
        return Work(self.runs - other.runs, self.tasks - other.tasks)


@dataclass(frozen=True)
class WorkOrigins:
    """Who led directly to some work, people and identities alike, and the work that it came from."""

    parties: Mapping[UUID, OriginRole]
    work: Work = Work()


@dataclass(frozen=True)
class WorkSource:
    """What one app knows of runs or tasks."""

    #: The origins of this work; runs and tasks of other apps are ignored.
    origins: Callable[[Work], WorkOrigins]
    #: The work that this identity did at this moment; None for now.
    under_way: Callable[[UUID, datetime | None], Work]


_work_sources: list[WorkSource] = []


def add_work_source(source: WorkSource) -> None:
    if source not in _work_sources:
        _work_sources.append(source)


def work_origins(work: Work) -> WorkOrigins:
    parties, above = dict[UUID, OriginRole](), Work()
    for source in _work_sources:
        origins = source.origins(work)
        parties = {**origins.parties, **parties}
        above |= origins.work
    return WorkOrigins(parties, above)


def work_under_way(identity_id: UUID, at: datetime | None = None) -> Work:
    work = Work()
    for source in _work_sources:
        work |= source.under_way(identity_id, at)
    return work


@dataclass(frozen=True)
class Readiness:
    #: Each readiness check by its name: whether it holds, and a sentence.
    checks: dict[str, tuple[bool, str]] = field(default_factory=dict)
    #: Sentences about what is to be mended and is no reason to stop.
    warnings: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class House:
    """What only the wiring knows of this installation, for the page that shows it."""

    readiness: Callable[[], Readiness]
    #: How many messages wait, by queue; None when the broker did not tell in time.
    queues: Callable[[], dict[str, int] | None]


_house: list[House] = []


def describe_house(house: House) -> None:
    _house[:] = [house]


def house() -> House | None:
    return _house[0] if _house else None
