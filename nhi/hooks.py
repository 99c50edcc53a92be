"""Extension points that higher apps fill in `AppConfig.ready()`.

Stop steps, call conditions, tool schemas, change listeners, hourly quotas, tasks, work origins, installation status.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from nhi.actors import Actor
from nhi.choices import OriginRole
from nhi.decisions.delegation import TaskFacts
from nhi.decisions.types import AccessMatch, ConditionResult
from nhi.models import Identity

#: Returns an app's conditions for caller, target and arguments, for checks and explanations outside of a call.
ConditionSource = Callable[[UUID, UUID, Any], tuple[ConditionResult, ...]]


def count_nothing(_identity: Identity) -> int:
    return 0


def count_nothing_of_all(_identities: Sequence[Identity]) -> int:
    return 0


@dataclass(frozen=True)
class StopStepResult:
    """How many items a stop step ended, and how many of them had not started."""

    count: int
    unstarted: int = 0


@dataclass(frozen=True)
class StopStep:
    """Work that ends when an identity is stopped. `run` is idempotent and returns the number of ended items."""

    name: str
    run: Callable[[Identity], int | StopStepResult]
    #: How many items `run` would end now for these identities, for the confirmation dialog.
    count: Callable[[Sequence[Identity]], int]
    #: How many items stay stopped after reactivation, for the activation dialog.
    remains: Callable[[Identity], int] = count_nothing
    #: How many of the items of `count` are only queued and not running.
    unstarted: Callable[[Sequence[Identity]], int] = count_nothing_of_all


#: Stop steps by their name in the response to a suspension.
stop_steps: dict[str, StopStep] = {}


def add_stop_step(step: StopStep) -> None:
    stop_steps[step.name] = step


#: The sources in the order of registration.
_condition_sources: list[ConditionSource] = []


def add_condition_source(source: ConditionSource) -> None:
    if source not in _condition_sources:
        _condition_sources.append(source)


def load_conditions(caller_id: UUID, target_id: UUID, parameters: Any) -> tuple[ConditionResult, ...]:
    return tuple(condition for source in _condition_sources for condition in source(caller_id, target_id, parameters))


#: Returns the argument schemas of a tool: the one in use and the one that waits for approval.
SchemaSource = Callable[[UUID], list[dict[str, Any]]]
_schema_sources: list[SchemaSource] = []


def set_schema_source(source: SchemaSource) -> None:
    _schema_sources[:] = [source]


def load_argument_schemas(tool_id: UUID) -> list[dict[str, Any]]:
    """Return the argument schemas of a tool; empty before its server has described it."""
    return [schema for source in _schema_sources for schema in source(tool_id)]


#: Listeners update data of higher apps in the transaction of the change.
IdentityListener = Callable[[Identity, frozenset[str], Actor], None]
GrantListener = Callable[[UUID, UUID], None]
_identity_listeners: list[IdentityListener] = []
_grant_listeners: list[GrantListener] = []


def on_identity_change(listener: IdentityListener) -> None:
    if listener not in _identity_listeners:
        _identity_listeners.append(listener)


def notify_identity_changed(identity: Identity, changed_fields: frozenset[str], actor: Actor) -> None:
    for listener in _identity_listeners:
        listener(identity, changed_fields, actor)


def on_grant_replaced(listener: GrantListener) -> None:
    if listener not in _grant_listeners:
        _grant_listeners.append(listener)


def notify_grant_replaced(old: UUID, new: UUID) -> None:
    for listener in _grant_listeners:
        listener(old, new)


#: Returns the hourly quota of a grant between identities, which counts tasks.
HourlyQuotaSource = Callable[[AccessMatch], ConditionResult]
_hourly_quota_sources: list[HourlyQuotaSource] = []


def set_hourly_quota_source(source: HourlyQuotaSource) -> None:
    _hourly_quota_sources[:] = [source]


def load_hourly_quota(match: AccessMatch) -> tuple[ConditionResult, ...]:
    return tuple(source(match) for source in _hourly_quota_sources)


#: Returns the tasks with these ids; with an actor, only the visible ones.
TaskSource = Callable[[Collection[UUID], Actor | None], Mapping[UUID, TaskFacts]]
_task_sources: list[TaskSource] = []


def set_task_source(source: TaskSource) -> None:
    _task_sources[:] = [source]


def load_tasks(ids: Collection[UUID], *, visible_to: Actor | None = None) -> Mapping[UUID, TaskFacts]:
    return _task_sources[0](ids, visible_to) if ids and _task_sources else {}


@dataclass(frozen=True)
class WaitingCall:
    """A call within a task that waits for a person."""

    approval_id: UUID
    task_id: UUID
    #: The tool's name as the agent sees it.
    tool: str
    expires_at: datetime


@dataclass(frozen=True)
class WaitingCallListener:
    """Callbacks for a call within a task that starts to wait, and for a person's decision about it."""

    waits: Callable[[WaitingCall], None]
    decided: Callable[[UUID], None]


_waiting_call_listeners: list[WaitingCallListener] = []


def on_waiting_call(listener: WaitingCallListener) -> None:
    if listener not in _waiting_call_listeners:
        _waiting_call_listeners.append(listener)


def notify_call_waiting(call: WaitingCall) -> None:
    for listener in _waiting_call_listeners:
        listener.waits(call)


def notify_call_decided(approval_id: UUID) -> None:
    for listener in _waiting_call_listeners:
        listener.decided(approval_id)


@dataclass(frozen=True)
class WorkIds:
    """Ids of runs and tasks."""

    runs: frozenset[UUID] = frozenset()
    tasks: frozenset[UUID] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.runs or self.tasks)

    def __or__(self, other: "WorkIds") -> "WorkIds":
        return WorkIds(self.runs | other.runs, self.tasks | other.tasks)

    def __sub__(self, other: "WorkIds") -> "WorkIds":
        return WorkIds(self.runs - other.runs, self.tasks - other.tasks)


@dataclass(frozen=True)
class WorkOrigins:
    """The people and identities that led directly to some work, and the work that caused it."""

    parties: Mapping[UUID, OriginRole]
    work: WorkIds = WorkIds()


@dataclass(frozen=True)
class WorkSource:
    """How an app finds where its work comes from, and the current work of an identity."""

    #: Returns the origins of the work; ignores runs and tasks of other apps.
    origins: Callable[[WorkIds], WorkOrigins]
    #: Returns the work of the identity at the given time; None means now.
    current_work: Callable[[UUID, datetime | None], WorkIds]


_work_sources: list[WorkSource] = []


def add_work_source(source: WorkSource) -> None:
    if source not in _work_sources:
        _work_sources.append(source)


def load_work_origins(work: WorkIds) -> WorkOrigins:
    parties, origin_work = dict[UUID, OriginRole](), WorkIds()
    for source in _work_sources:
        origins = source.origins(work)
        parties = {**origins.parties, **parties}
        origin_work |= origins.work
    return WorkOrigins(parties, origin_work)


def load_current_work(identity_id: UUID, at: datetime | None = None) -> WorkIds:
    work = WorkIds()
    for source in _work_sources:
        work |= source.current_work(identity_id, at)
    return work


@dataclass(frozen=True)
class ReadinessReport:
    """Whether this installation can serve requests, as `/readyz` reports it."""

    #: The result of each readiness check, by name: whether it passed, and a sentence.
    checks: dict[str, tuple[bool, str]] = field(default_factory=dict)
    #: Sentences about problems that do not affect readiness.
    warnings: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class InstallationStatus:
    """Functions of `config` that report the status of the installation, for the system page."""

    readiness: Callable[[], ReadinessReport]
    #: The number of waiting messages by queue; None if the broker did not answer in time.
    queues: Callable[[], dict[str, int] | None]


_installation_status: list[InstallationStatus] = []


def set_installation_status(status: InstallationStatus) -> None:
    _installation_status[:] = [status]


def installation_status() -> InstallationStatus | None:
    return _installation_status[0] if _installation_status else None
