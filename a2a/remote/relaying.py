"""What a remote agent says of a task becomes the task's own events, in its order and under our ids.

A snapshot is told apart from what is known already, so that whatever was missed while nobody listened is made up for
and nothing is told twice.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.db import transaction

from a2a import cancelling, showing, writer
from a2a.carriers import Check
from a2a.changes import Change, Made, Status
from a2a.choices import TERMINAL, TRANSITIONS, TaskState
from a2a.endpoint_room import OutputTooLarge
from a2a.models import RemoteTask, Task
from a2a.remote import changing, reading
from a2a.remote.changing import Rest, Told
from a2a.remote.reading import Item
from a2a.remote.troubles import Code, Trouble
from a2a.writer import TaskFull

INTERRUPTED = frozenset({TaskState.INPUT_REQUIRED, TaskState.AUTH_REQUIRED})
#: How an end that is no success is said of the task, to those that are parts of it.
ENDED = {
    TaskState.FAILED: "failed",
    TaskState.REJECTED: "was rejected",
    TaskState.CANCELED: "was cancelled",
}


@dataclass(frozen=True)
class After:
    """Where the task is, once all that was said is written."""

    state: TaskState
    #: Whether anything was new.
    news: bool

    @property
    def over(self) -> bool:
        return self.state in TERMINAL

    @property
    def waits_for_caller(self) -> bool:
        return self.state == TaskState.INPUT_REQUIRED


def relay(task_id: UUID, items: Sequence[Item], *, check: Check | None, answers: bool = False) -> After:
    """Write what was said. `answers`: it is the answer to the message that was leaving, which has arrived then.

    Of a task that has ended here no more is kept than what it is called there. The same goes for what a task here has
    no room for, and that is a `Trouble`.
    """
    # What takes long in large ones is done before anything is locked.
    told = [changing.told(item) for item in items]
    try:
        draft = _written(task_id, told, check, answers=answers)
    except (OutputTooLarge, TaskFull) as full:
        _keep_ids(task_id, items, check, answers=answers)
        raise _no_room(full) from full
    if draft.changes and draft.state in ENDED:
        cancelling.cancel_within(draft.task, f"the {draft.task} {ENDED[draft.state]}")
    return After(draft.state, bool(draft.changes))


def _written(task_id: UUID, told: Sequence[Told], check: Check | None, *, answers: bool) -> "_Draft":
    with transaction.atomic():
        draft = _begun(task_id, check)
        if answers:
            draft.arrived()
        for one in told:
            draft.take(one)
        _write(draft)
    return draft


def _keep_ids(task_id: UUID, items: Sequence[Item], check: Check | None, *, answers: bool) -> None:
    """It arrived all the same, and by these its server is told that nobody wants more."""
    with transaction.atomic():
        draft = _begun(task_id, check)
        for item in items:
            draft.only_ids(item)
        if answers:
            draft.arrived()
        draft.row.save()


def _begun(task_id: UUID, check: Check | None) -> "_Draft":
    task = writer.locked(task_id)
    if check is not None:
        check(task)
    return _Draft(task, RemoteTask.objects.get(task=task))


def _no_room(full: OutputTooLarge | TaskFull) -> Trouble:
    if isinstance(full, TaskFull):
        return Trouble(Code.TASK_FULL, f"The remote agent goes on where no more is taken. {full.message}", sent=True)
    most = full.details["limit"]
    said = f"The remote agent made more than {most} bytes, which is the most that one artifact of its may have."
    return Trouble(Code.OUTPUT_TOO_LARGE, said, sent=True)


def _write(draft: "_Draft") -> None:
    facts = {"cancelled_by_name": draft.task.agent_name} if draft.state == TaskState.CANCELED else {}
    if draft.changes:
        writer.write(draft.task, *draft.changes, **facts)
    draft.row.save()


@dataclass
class _Draft:
    task: Task
    row: RemoteTask
    changes: list[Change] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.state = TaskState(self.task.state)

    def arrived(self) -> None:
        """What the agent took from its caller is worked on."""
        if self.row.leaving is None:
            return
        self.row.arrived, self.row.leaving = self.row.leaving, None
        if self.state in INTERRUPTED:
            self._becomes(Status(TaskState.WORKING))

    def take(self, told: Told) -> None:
        item = told.item
        if self.state in TERMINAL:
            self.only_ids(item)
        elif "message" in item:
            self._answer(item["message"], told)
        elif "task" in item:
            self._snapshot(item["task"], told)
        elif "statusUpdate" in item:
            self._is_ours(item["statusUpdate"]["taskId"], item["statusUpdate"]["contextId"])
            self._status(item["statusUpdate"]["status"], told.status, news=True)
        else:
            self._is_ours(item["artifactUpdate"]["taskId"], item["artifactUpdate"]["contextId"])
            self.changes.extend(told.made)

    def only_ids(self, item: Item) -> None:
        if self.changes:
            return
        if "message" in item:
            self.row.over = True
            return
        told = item.get("task") or item.get("statusUpdate") or item["artifactUpdate"]
        self._is_ours(told.get("id") or told.get("taskId", ""), told["contextId"])
        self.row.over = self.row.over or reading.ends(item)

    def _answer(self, message: Mapping[str, Any], told: Told) -> None:
        self.row.remote_context_id = self.row.remote_context_id or message.get("contextId", "")
        self.changes.extend(told.made)
        self._becomes(Status(TaskState.COMPLETED))
        self.row.over = True

    def _snapshot(self, task: Mapping[str, Any], told: Told) -> None:
        self._is_ours(task["id"], task["contextId"])
        known = {one["artifactId"]: one for one in showing.made(self.task.pk)}
        # What this very draft makes is not among them: a snapshot is the first thing that is said.
        for made in told.made:
            self._made(made, known.get(made.artifact["artifactId"]))
        self._status(task["status"], told.status, news=False)

    def _made(self, made: Made, known: Mapping[str, Any] | None) -> None:
        if known is None:
            self.changes.append(made)
            return
        had, has = known["parts"], made.shown["parts"]
        if had == has:
            return
        if has[: len(had)] == had:
            self.changes.append(Rest(made.artifact, whole=made, known=len(had)))
        else:
            self.changes.append(made)

    def _status(self, told: Mapping[str, Any], status: Status | None, *, news: bool) -> None:
        to, mark = reading.state(told), _mark(told)
        # An event that carries nothing to know it by may well be another of the same.
        known_again = not news or bool(told["timestamp"] or "message" in told)
        if (mark == self.row.status_mark and known_again) or (not news and self._is_as_known(to, told)):
            return
        self.row.status_mark = mark
        if status is not None:
            self._becomes(status)
            self.row.over = status.state in TERMINAL

    def _is_as_known(self, to: TaskState | None, told: Mapping[str, Any]) -> bool:
        """Some servers date a status when it is asked for: one that works on without a word is no news."""
        return to == self.state == TaskState.WORKING and "message" not in told

    def _becomes(self, status: Status) -> None:
        """By way of working, where no other leads there: from one question to the next, or to the end."""
        if status.state not in TRANSITIONS[self.state]:
            self.changes.append(Status(TaskState.WORKING))
        self.changes.append(status)
        self.state = status.state

    def _is_ours(self, task_id: str, context_id: str) -> None:
        known = self.row.remote_task_id
        if task_id and known and task_id != known:
            raise Trouble(Code.INVALID_ANSWER, "The remote agent answered with news of another task.", sent=True)
        self.row.remote_task_id = known or task_id
        self.row.remote_context_id = self.row.remote_context_id or context_id


def _mark(told: Mapping[str, Any]) -> str:
    """By its message, if that has an id; its time may be when it was asked for."""
    said = told.get("message") or {}
    known_by = [told["state"], said.get("messageId") or [told["timestamp"], said.get("parts")]]
    return hashlib.sha256(json.dumps(known_by, sort_keys=True).encode()).hexdigest()
