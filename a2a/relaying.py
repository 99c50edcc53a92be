"""What the run of a task prints becomes pieces of the task's result while it runs.

The run's output is in rows that are redacted and numbered before anything here reads them. The task says up to which of
them its events tell, and that is written with those events: whoever goes on, in this process or another, goes on there.
"""

import threading
import time
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from django.db import InterfaceError, OperationalError, connection, transaction
from django.db.models import Max
from django.utils import timezone

from a2a import parts, writer
from a2a.changes import Change, Made, Printed, Status
from a2a.choices import TaskState
from a2a.models import Artifact, Task
from a2a.writer import TaskFull
from common import background
from common.background import BackgroundThread
from common.errors import PayloadTooLarge
from supervisor.choices import Kind, OutputPattern, Stream
from supervisor.models import Attempt, Execution, OutputChunk

#: Seconds between two pieces, at least; after the first ten minutes it is a part of the time that the run has taken,
#: so that one of a week makes fewer than 5,000.
PAUSE, PART = 1.0, 600
LOOK_EVERY = 0.2
#: What passes, and then it is told.
AWAY = (OperationalError, InterfaceError)
#: The number of the event that says that a task's first run has begun.
BEGUN = 2
#: No more is told before the end.
ENOUGH = 2**31 - 1


@dataclass(frozen=True)
class Unsaid:
    """What the run's current try has written and the task does not tell of yet."""

    text: str
    #: Where the task is once this is told.
    until: int
    #: The first of this try: what is there is of another.
    begins: bool

    def change(self, *, last: bool = False) -> Made:
        made = parts.artifact([parts.text(self.text)])
        return Made(made, last=last) if self.begins and self.text else Printed(made, last=last)


def unsaid(task: Task, run: Execution) -> Unsaid:
    tried = Attempt.objects.filter(execution=run).aggregate(last=Max("last_piece"))["last"] or 0
    more = OutputChunk.objects.filter(execution=run, seq__gt=max(task.relayed, tried), stream=Stream.OUT)
    found = list(more.order_by("seq").values_list("seq", "text"))
    until = found[-1][0] if found else task.relayed
    return Unsaid("".join(text for _, text in found), until, begins=task.relayed <= tried)


def closing(task: Task, whole: Made | None) -> list[Change]:
    """What a result that was begun ends with: its rest, or all of it where something else was told."""
    # Most tasks have been sent and begun, and no more: for those nothing is asked.
    there = _result(task) if task.last_seq > BEGUN else None
    if there is None:
        return [whole] if whole else []
    told = parts.said_in(there.body)
    ends = whole or Made(parts.artifact([parts.text("")]))
    if not task.relayed or not parts.said_in(ends.shown).startswith(told):
        return [ends]
    rest = parts.said_in(ends.shown)[len(told) :]
    return [Printed({**ends.shown, "parts": [parts.text(rest)]})]


def _result(task: Task) -> Artifact | None:
    return Artifact.objects.filter(task=task, artifact_id=parts.RESULT).first()


def broken_off(task: Task, run: Execution) -> list[Change]:
    """The same of a run that came to no result."""
    is_begun = task.relayed > 0 and _result(task) is not None
    return [unsaid(task, run).change(last=True)] if is_begun else []


def relay(run: Execution) -> None:
    """Tell what is new, once, whoever else is about to."""
    listening = Task.objects.open().exclude(state=TaskState.INPUT_REQUIRED).exclude(agent__endpoint__streaming=False)
    while (task := listening.filter(execution_id=run.pk).first()) is not None:
        if _told(task, run):
            return


def _told(task: Task, run: Execution) -> bool:
    """False where the task was moved on by somebody else meanwhile."""
    news = unsaid(task, run)
    if not news.text:
        return True
    change = news.change()
    writer.prepare(change)
    try:
        with transaction.atomic():
            held = writer.locked(task.pk)
            if not is_still(held, task):
                return False
            writer.write(held, *begun(held, run), change, relayed=news.until)
    except (PayloadTooLarge, TaskFull):
        # Its end says so, or is all that there is room for.
        Task.objects.filter(pk=task.pk, execution_id=run.pk, relayed=task.relayed).update(relayed=ENOUGH)
    return True


def is_still(held: Task, read: Task) -> bool:
    """Whether the task is with the run, and where it was, as it was read."""
    return all(getattr(held, name) == getattr(read, name) for name in ("execution_id", "state", "relayed"))


def begun(held: Task, run: Execution) -> list[Status]:
    """The start of its run, where nobody has told of that."""
    return [Status(TaskState.WORKING)] if held.state == TaskState.SUBMITTED and run.start_time is not None else []


def heard(run: Execution) -> None:
    """A run has written more, in this process."""
    agent = run.agent
    if run.task_id is not None and (agent.kind, agent.output_pattern) == (Kind.PROCESS, OutputPattern.STDOUT):
        desk.note(run)


class _Desk:
    """Which runs have written, and when each may be told of again."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._written: dict[UUID, Execution] = {}
        self._not_before: dict[UUID, float] = {}

    def note(self, run: Execution) -> None:
        with self._lock:
            self._written[run.pk] = run
        office.wake()

    def work(self) -> None:
        """Until nothing is left to tell."""
        try:
            while self._written:
                while (run := self._next()) is not None:
                    self._tell(run)
                # The rest may be told later, and what is written meanwhile is told with it: that is the pace.
                time.sleep(LOOK_EVERY)
        finally:
            connection.close()

    def _tell(self, run: Execution) -> None:
        try:
            background.run_isolated(relay, run)
        except AWAY:
            self.note(run)
            raise

    def _next(self) -> Execution | None:
        now = time.monotonic()
        with self._lock:
            self._not_before = {pk: at for pk, at in self._not_before.items() if at > now}
            due = next((pk for pk in self._written if pk not in self._not_before), None)
            if due is None:
                return None
            run = self._written.pop(due)
            self._not_before[due] = now + _pause(run)
        return run


def _pause(run: Execution) -> float:
    taken = timezone.now() - run.start_time if run.start_time else timedelta()
    return max(PAUSE, taken.total_seconds() / PART)


desk = _Desk()
office = BackgroundThread("relaying", desk.work, error_message="What runs print could not be told to their tasks.")
