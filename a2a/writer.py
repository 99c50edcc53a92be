"""The one writer of tasks: every change is an event with a number, under the lock of the task's row.

The number is the task's own, so a reader who has seen event 7 misses none after it. What has ended stays as it ended:
the update itself says so, whatever was read before.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import BooleanField, ExpressionWrapper, F
from django.db.models.functions import Now

from a2a import covering, endings, endpoint_room, making, news, outbox, parts, showing
from a2a.changes import Change, Made, Status
from a2a.choices import RUN_HERE, TERMINAL, TRANSITIONS, EventKind, Role, TaskState
from a2a.models import Artifact, Task, TaskEvent, TaskMessage
from a2a.models.tasks import OFFERED
from common import canonical_json
from common.db import clock
from common.errors import Conflict, InvalidTransition
from common.fastsql import compiled_queries
from common.fastsql.compiled_queries import PreparedQuery

LONGEST_ERROR, LONGEST_CODE = 1000, 100
#: Of one task, so that whoever reads it can hold it.
MOST_EVENTS, MOST_BYTES = 10_000, 64 * 1024 * 1024


def lockable(*, skip_locked: bool = False) -> Any:
    """Tasks that are locked as they are read, with what `write` has to know beside their columns."""
    rows = Task.objects.annotate(
        now=Now(),
        most_output=F("agent__endpoint__max_output_size"),
        is_offered=ExpressionWrapper(OFFERED, BooleanField()),
    )
    return rows.select_for_update(of=("self",), skip_locked=skip_locked)


_LOCKED = PreparedQuery(lambda task: lockable().filter(pk=task).order_by(), task=UUID)


class TaskFull(Conflict):
    """It has as many events as a task may have, or as much in them."""

    code = "task_full"


class TaskEnded(Conflict):
    code = "task_ended"


Check = Callable[[Task], None]


def begin(task: Task, message: parts.Message, *, shown: parts.Message) -> Task:
    """Write a new task with its first message, in the caller's transaction; `shown` is what may be kept of that."""
    task.last_seq, task.state_at = 1, task.created_at
    task.root_id = task.parent.root_id if task.parent is not None else task.pk
    sent, body = (parts.placed(one, task_id=task.pk, context_id=task.context_id) for one in (message, shown))
    first = _message(task, 1, Role.USER, sent, body, task.created_at)
    task.input, task.is_sealed = parts.plain(first.body["parts"]), bool(first.sealed_body)
    status = parts.status(TaskState.SUBMITTED, parts.moment(task.created_at), None)
    told = parts.task(
        task.pk, context_id=task.context_id, status=status, history=[first.body], metadata=task.metadata
    )  # fmt: skip
    task.size = _weight(told)
    event = TaskEvent(
        task=task, seq=1, kind=EventKind.TASK, body={"task": told}, size=task.size, at=task.created_at
    )  # fmt: skip
    compiled_queries.insert_rows(task, first, event)
    task.first_message = first.body
    return task


def apply_event(task_id: UUID, *changes: Change, check: Check | None = None, **facts: Any) -> Task:
    """Make these changes in order, all or none, and keep `facts` with them.

    `check` looks at the locked row and raises to refuse. Raises `TaskEnded` where nothing can change any more.
    """
    prepare(*changes)
    with transaction.atomic():
        task = locked(task_id)
        if check is not None:
            check(task)
        return write(task, *changes, **facts)


def prepare(*changes: Change) -> None:
    """Find what may not be kept of them, which takes as long as they are: before anything is locked."""
    for change in changes:
        _ = change.shown


def locked(task_id: UUID) -> Task:
    found: Task | None = _LOCKED.fetch_first(task=task_id)
    if found is None:
        raise Task.DoesNotExist
    return found


def write(task: Task, *changes: Change, **facts: Any) -> Task:
    """The same to a row that the caller has locked."""
    _require_open(task)
    _require_room(task, changes)
    # Two events of one moment keep their order: time does not go back between them.
    draft = _Draft(task, max(clock.parse_database_time(task.now), task.state_at))  # type: ignore[attr-defined]  # annotated by `locked`
    for change in changes:
        draft.take(change)
    draft.keep(facts)
    return task


@dataclass
class _Draft:
    task: Task
    at: datetime
    events: list[TaskEvent] = field(default_factory=list)
    messages: list[TaskMessage] = field(default_factory=list)
    artifacts: list[Artifact] = field(default_factory=list)
    changed: dict[str, Any] = field(default_factory=dict)

    def take(self, change: Change) -> None:
        if isinstance(change, Status):
            self._status(change)
        elif isinstance(change, Made):
            self._made(change)
        else:
            # An answer comes after what was asked.
            self._keep_status_message()
            self._said(Role.USER, change.message, change.shown, self.at)
            self._event(EventKind.MESSAGE, {"message": self.messages[-1].body})

    def keep(self, facts: dict[str, Any]) -> None:
        task = self.task
        task.size += sum(event.size or 0 for event in self.events)
        self.changed |= {"last_seq": task.last_seq, "size": task.size, **facts}
        if task.state in TERMINAL:
            self._end()
        # Nothing is changed of what has ended, which is what `completed_at` says.
        if not compiled_queries.update_if(Task, task.pk, self.changed, where={"completed_at": None}):
            raise ended(task)
        compiled_queries.insert_rows(*self.artifacts, *self.events, *self.messages)
        for name, value in self.changed.items():
            setattr(task, name, value)
        if task.state in TERMINAL:
            outbox.put(task, event_id=self.events[-1].pk)
            endings.tell(task)
        if task.pushes:
            outbox.push(task, self.events)
        news.notifier.notify(task.pk)

    def _status(self, change: Status) -> None:
        task, to = self.task, change.state
        if to not in TRANSITIONS[TaskState(task.state)]:
            raise InvalidTransition(
                f"A task that is {TaskState(task.state).label.lower()} cannot become {to.label.lower()}.",
                details={"state": task.state},
            )
        self._keep_status_message()
        said = None if change.shown is None else self._placed(change.shown)
        task.state, task.state_at, task.status_message = to, self.at, said
        self.changed |= {"state": to, "state_at": self.at, "status_message": said}
        if to != TaskState.SUBMITTED and task.started_at is None and to == TaskState.WORKING:
            self.changed["started_at"] = self.at
        if change.error_code:
            self._error(change)
        metadata = {name: value for name in ("error_code", "error_message") if (value := self.changed.get(name))}
        told = {**self._ids(), "status": parts.status(to, parts.moment(self.at), said)}
        self._event(EventKind.STATUS, {"statusUpdate": {**told, "metadata": metadata} if metadata else told})

    def _error(self, change: Status) -> None:
        self.changed["error_code"] = change.error_code[:LONGEST_CODE]
        self.changed["error_message"] = covering.shown(change.error_message)[:LONGEST_ERROR]
        if change.operator_message not in ("", change.error_message):
            self.changed["operator_message"] = covering.shown(change.operator_message)[:LONGEST_ERROR]

    def _made(self, change: Made) -> None:
        made = change.shown
        last = self._last_made(made["artifactId"])
        found = last if last is not None and last.artifact_id == made["artifactId"] else None
        most = self.task.most_output  # type: ignore[attr-defined]  # annotated by `locked`
        if found is not None and change.append and change.in_pieces and not found._state.adding:
            making.append(found, made, most=most)
        else:
            body = change.joined(found.body) if found is not None and change.append else made
            endpoint_room.require_output(most, body)
            self._whole(found, body, last)
        told = {**self._ids(), "artifact": made, "append": change.append, "lastChunk": change.last}
        self._event(EventKind.ARTIFACT, {"artifactUpdate": told})

    def _whole(self, found: Artifact | None, body: parts.Message, last: Artifact | None) -> None:
        if found is not None:
            making.replace(found, body)
            return
        position = 1 if last is None else last.position + 1
        new = Artifact(task=self.task, artifact_id=body["artifactId"], position=position, body=body)
        self.artifacts.append(new)

    def _last_made(self, name: str) -> Artifact | None:
        """What was made under this name, else the last that was made."""
        for new in reversed(self.artifacts):
            if new.artifact_id == name:
                return new
        kept = making.last(self.task.pk, name)
        if kept is not None and kept.artifact_id == name:
            return kept
        return self.artifacts[-1] if self.artifacts else kept

    def _keep_status_message(self) -> None:
        """What the agent said with its last status becomes part of what was said, by when it was."""
        said = self.task.status_message
        if said is not None:
            self._said(Role.AGENT, said, said, self.task.state_at)
            self.task.status_message = self.changed["status_message"] = None

    def _said(self, role: Role, message: parts.Message, shown: parts.Message, at: datetime) -> None:
        before = TaskMessage.objects.filter(task=self.task).count() + len(self.messages)
        sent, body = self._placed(message), self._placed(shown)
        self.messages.append(_message(self.task, before + 1, role, sent, body, at))
        if self.messages[-1].sealed_body:
            self.changed["is_sealed"] = True

    def _end(self) -> None:
        """What the agent was given as it was sent is given to nobody any more."""
        if self.task.is_sealed:
            TaskMessage.objects.filter(task=self.task).exclude(sealed_body="").update(sealed_body="")
        ends: dict[str, Any] = {"completed_at": self.at, "lease_mark": None, "lease_until": None, "is_sealed": False}
        if self.task.runtime_kind in RUN_HERE:
            # Whoever carries one to another server may have to tell that of its end.
            ends["dispatch_at"] = None
        self.changed |= {**ends, "result": self._result() if self.task.state == TaskState.COMPLETED else None}

    def _result(self) -> Any:
        new = [one.body for one in self.artifacts]
        made = new if self.artifacts and self.artifacts[0].position == 1 else [*showing.made(self.task.pk), *new]
        if not made and self.changed.get("is_answered"):
            return parts.plain(self.changed["status_message"]["parts"])
        return parts.result_of(made)

    def _event(self, kind: EventKind, body: dict[str, Any]) -> None:
        self.task.last_seq += 1
        self.events.append(
            TaskEvent(
                task=self.task, seq=self.task.last_seq, kind=kind, body=body, size=_weight(body), at=self.at
            )
        )  # fmt: skip

    def _ids(self) -> dict[str, Any]:
        return {"taskId": str(self.task.pk), "contextId": self.task.context_id}

    def _placed(self, message: parts.Message) -> dict[str, Any]:
        return parts.placed(message, task_id=self.task.pk, context_id=self.task.context_id)


def ended(task: Task) -> TaskEnded:
    now = Task.objects.get(pk=task.pk)
    said = f"The {now} is {TaskState(now.state).label.lower()} already. Nothing was changed."
    return TaskEnded(said, details={"state": now.word, "a2a_state": now.state})


def _require_open(task: Task) -> None:
    if not task.is_open:
        raise ended(task)


def _require_room(task: Task, changes: tuple[Change, ...]) -> None:
    """A task holds so many events and bytes and no more; its end is always told."""
    if any(isinstance(change, Status) and change.state in TERMINAL for change in changes):
        return
    if task.last_seq >= MOST_EVENTS:
        said = f"The {task} has {MOST_EVENTS} events, which is as many as may be: it can only be ended."
        raise TaskFull(said, details={"limit": MOST_EVENTS})
    if task.size >= MOST_BYTES:
        said = f"The events of the {task} are {MOST_BYTES} bytes, which is as much as may be: it can only be ended."
        raise TaskFull(said, details={"limit": MOST_BYTES})


def _weight(body: Any) -> int:
    return len(canonical_json.encode(body))


def _message(
    task: Task, position: int, role: Role, sent: parts.Message, body: parts.Message, at: datetime
) -> TaskMessage:
    row = TaskMessage(task=task, position=position, role=role, body=body, at=at)
    if role == Role.USER and body != sent:
        row.sealed_body = covering.seal(sent, row=row.pk)
    return row
