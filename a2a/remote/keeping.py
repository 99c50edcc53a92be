"""What is kept of a task that is carried on: what is to be sent next, that it is leaving, and whether it arrived."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import transaction
from yarl import URL

from a2a import cancelling, covering, parts, writer
from a2a.carriers import Check, Elsewhere
from a2a.changes import Status
from a2a.choices import Role, TaskState
from a2a.models import RemoteTask, Task, TaskMessage
from a2a.remote.target import Interface, Target
from a2a.remote.troubles import Trouble
from a2a.writer import TaskEnded
from common.db import clock
from common.ids import uuid7
from nhi.actors import SYSTEM
from nhi.audit import events

#: What belongs to our side alone: the remote agent has ids of its own.
OURS = frozenset({"taskId", "contextId", "referenceTaskIds"})
#: More time than any task is given.
ENDLESS = 10 * 365 * 86400.0


@dataclass(frozen=True)
class Leaving:
    """A message that is to be sent on, in the remote side's ids."""

    position: int
    message: dict[str, Any]


@dataclass(frozen=True)
class Standing:
    """Where a task is."""

    task_id: UUID
    state: TaskState
    request_id: str
    remote_task_id: str
    interface: Interface | None
    next: Leaving | None
    #: What the caller sent beside its messages.
    metadata: dict[str, Any]
    #: A message was leaving when nobody was here to hear whether it arrived.
    unsure: bool
    #: Until the agent must have ended it, and whether that is the task's own deadline.
    seconds: float
    due: bool

    @property
    def waits_for_caller(self) -> bool:
        return self.state == TaskState.INPUT_REQUIRED and self.next is None


def look(task_id: UUID, target: Target) -> Standing | None:
    """None once it has ended."""
    task = Task.objects.select_related("remote").get(pk=task_id)
    if not task.is_open:
        return None
    row = _row(task)
    leaves = _next(task, row)
    seconds, due = _left(task, row, target, waits=task.state == TaskState.INPUT_REQUIRED or leaves is not None)
    return Standing(
        task_id=task.pk,
        state=TaskState(task.state),
        request_id=str(task.request_id or uuid7()),
        remote_task_id=row.remote_task_id if row else "",
        interface=interface_of(row) if row and row.remote_task_id else None,
        next=leaves,
        metadata={**task.metadata, **({"task_type": task.task_type} if task.task_type else {})},
        unsure=row is not None and row.leaving is not None,
        seconds=seconds,
        due=due,
    )


def intend(standing: Standing, interface: Interface, *, check: Check | None) -> None:
    """Write down that the next message leaves now, before it does."""
    assert standing.next is not None  # nothing else leaves
    with transaction.atomic():
        task = _open(standing.task_id, check)
        row = _row(task)
        if row is None:
            row = RemoteTask(task=task, context_id=task.context_id)
            place = str(URL(interface.url).with_query(None).with_fragment(None))
            details = {"url": place, "version": interface.version, "binding": interface.binding}
            events.write("task.carried", actor=SYSTEM, subject=task, details=details)
        if row.leaving is not None or row.arrived >= standing.next.position:
            raise Elsewhere(f"The {task} is being sent on by another process.")
        _keep_interface(row, interface)
        row.leaving, row.left_at = standing.next.position, clock.parse_database_time(task.now)  # type: ignore[attr-defined]  # annotated
        row.save()


def stayed(task_id: UUID, position: int, *, check: Check | None) -> None:
    """It surely did not arrive: it may be sent again."""
    with transaction.atomic():
        task = writer.locked(task_id)
        if check is not None:
            check(task)
        RemoteTask.objects.filter(task=task, leaving=position).update(leaving=None)


def let_be(task_id: UUID, *, check: Check | None) -> None:
    """Whether the message arrived shows at the remote side; what that side says now counts as news."""
    with transaction.atomic():
        row = _row(_open(task_id, check))
        if row is not None and row.leaving is not None:
            row.arrived, row.leaving, row.status_mark = row.leaving, None, ""
            row.save()


def fail(task_id: UUID, trouble: Trouble, *, check: Check | None) -> None:
    said = parts.message(Role.AGENT, [parts.text(trouble.said)])
    status = Status(TaskState.FAILED, said, trouble.code, trouble.said, trouble.operator)
    try:
        done = writer.apply_event(task_id, status, check=check)
    except TaskEnded:
        return
    if trouble.unknown_task:
        RemoteTask.objects.filter(pk=task_id).update(over=True)
    cancelling.cancel_within(done, f"the {done} failed")


def remote_context(task: Task) -> str:
    """What the agent calls this context, if the same caller was in it before."""
    before = RemoteTask.objects.filter(
        context_id=task.context_id, task__agent_id=task.agent_id, task__created_by_id=task.created_by_id,
        task__source_id=task.source_id,
    ).exclude(remote_context_id="")  # fmt: skip
    found = before.order_by("-task_id").values_list("remote_context_id", flat=True).first()
    return found or ""


def _open(task_id: UUID, check: Check | None) -> Task:
    task = writer.locked(task_id)
    if not task.is_open:
        raise writer.ended(task)
    if check is not None:
        check(task)
    return task


def _row(task: Task) -> RemoteTask | None:
    return RemoteTask.objects.filter(task=task).first()


def _next(task: Task, row: RemoteTask | None) -> Leaving | None:
    """The first message to begin with; any other answers what was asked for, and was let in for that alone."""
    after = row.arrived if row else 0
    said = task.messages.filter(role=Role.USER, position__gt=after).order_by("position").first()
    if said is None:
        return None
    ids = {"taskId": row.remote_task_id if row else "", "contextId": row.remote_context_id if row else ""}
    ids["contextId"] = ids["contextId"] or remote_context(task)
    kept = {name: value for name, value in _as_sent(said).items() if name not in OURS}
    return Leaving(said.position, {**kept, **{name: value for name, value in ids.items() if value}})


def _as_sent(said: TaskMessage) -> dict[str, Any]:
    return covering.unseal(said.sealed_body, row=said.pk) if said.sealed_body else dict(said.body)


def _left(task: Task, row: RemoteTask | None, target: Target, *, waits: bool) -> tuple[float, bool]:
    """Its time begins when it is sent a message, and does not run while `waits`: for its caller, or to leave."""
    now = clock.database_now()
    own = (task.deadline - now).total_seconds() if task.deadline else ENDLESS
    began = None if waits or row is None else row.left_at
    theirs = _since(began, now, target.patience) if began else target.patience
    return min(own, theirs), own <= theirs


def _since(moment: datetime, now: datetime, seconds: float) -> float:
    return (moment + timedelta(seconds=seconds) - now).total_seconds()


def interface_of(row: RemoteTask) -> Interface:
    """Where it went."""
    return Interface(row.url, row.version, row.binding, row.tenant, row.streaming)  # type: ignore[arg-type]  # written from one


def _keep_interface(row: RemoteTask, one: Interface) -> None:
    row.url, row.version, row.binding = one.url, one.version, one.binding
    row.tenant, row.streaming = one.tenant, one.streaming
