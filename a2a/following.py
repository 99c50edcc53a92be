"""A task goes where its run goes, and a run ends with its task.

Each hears of the other's moves when those are committed, so that neither holds the other's row while it waits for its
own. What was missed, since a process ended in between, is found by `catch_up`.
"""

from contextlib import suppress
from typing import Any

from django.db import transaction
from django.db.models import Exists, OuterRef, QuerySet

from a2a import cancelling, endpoint_room, parts, relaying, waking, writer
from a2a.changes import Change, Made, Status
from a2a.choices import TERMINAL, Role, TaskState
from a2a.models import Task
from a2a.models.tasks import TaskQuerySet
from common import background, strict_json
from common.errors import Conflict, InvalidTransition, PayloadTooLarge
from nhi.actors import SYSTEM
from nhi.hooks import StopStep
from nhi.models import Identity
from supervisor import cancelling as stopping
from supervisor import public_errors
from supervisor.categories import ASKS
from supervisor.choices import ErrorCategory, ExecutionState, ExecutionStatus, OutputPattern
from supervisor.models import Execution, ExecutionResult

MOST_AT_ONCE = 200
STOPPED, TIMEOUT = "run_cancelled", "timeout"
#: Why a task failed, by what its run failed for.
CODES: dict[str, str] = {
    ErrorCategory.TRANSIENT: "transient_error",
    ErrorCategory.PERMANENT: "permanent_error",
    ErrorCategory.AGENT_ERROR: "agent_error",
    ErrorCategory.SYSTEM_ERROR: "system_error",
}


def follow(run: Execution) -> None:
    """Bring the task of a run to where the run is. Told of it twice, nothing happens the second time."""
    if run.task_id is None:
        return
    if run.state == ExecutionState.STARTING:
        # It left the queue: another may come in.
        if Task.objects.due().filter(runs_agent_id=run.agent_id).exists():
            waking.dispatch(run.agent_id)
    elif run.state == ExecutionState.RUNNING or run.status is not None:
        with suppress(writer.TaskEnded, InvalidTransition):
            _follow(run)


def let_go(task: Task) -> None:
    """End the run of a task that has ended, unless that is what ended it."""
    if task.execution_id is None:
        return
    run = Execution.objects.open().filter(pk=task.execution_id, cancel_requested_at=None).first()
    if run is not None and not _is_left_to(stopping.STEP, run):
        said = f"The {task} is {TaskState(task.state).label.lower()}."
        with suppress(Conflict):  # it is being stopped already, or has ended
            stopping.cancel(actor=SYSTEM, execution=run, reason=said)


def catch_up() -> None:
    """The sweeper's part: what a process that ended did not get to."""
    for run in [*_done()[:MOST_AT_ONCE], *_running()[:MOST_AT_ONCE]]:
        background.run_isolated(follow, run)
    for task in _outlived()[:MOST_AT_ONCE]:
        background.run_isolated(let_go, task)


def _done() -> QuerySet[Execution]:
    waiting = _followed().filter(execution_id__isnull=False)
    return Execution.objects.done().filter(pk__in=waiting.values("execution_id"))


def _followed() -> TaskQuerySet:
    """One whose run asked its caller has been where that went."""
    return Task.objects.open().exclude(state=TaskState.INPUT_REQUIRED)


def _running() -> QuerySet[Execution]:
    unsaid = Task.objects.filter(state=TaskState.SUBMITTED, execution_id__isnull=False)
    return Execution.objects.filter(state=ExecutionState.RUNNING, pk__in=unsaid.values("execution_id"))


def _outlived() -> QuerySet[Task]:
    mine = Execution.objects.open().filter(task_id__isnull=False, cancel_requested_at=None)
    ended = Task.objects.filter(pk=OuterRef("task_id"), state__in=TERMINAL)
    return Task.objects.filter(pk__in=mine.filter(Exists(ended)).values("task_id"))


class _ToldMeanwhile(Exception):
    """More of what it printed, or all that there was: what to write is another thing by now."""


def _follow(run: Execution) -> None:
    while (task := _followed().filter(execution_id=run.pk).first()) is not None:
        with suppress(_ToldMeanwhile):
            _bring(task, run)
            return


def _bring(task: Task, run: Execution) -> None:
    if run.status == ExecutionStatus.CANCELLED:
        _cancelled(task, run)
    elif run.status is not None:
        _ended(task, run)
    else:
        _write(task, run)


def _cancelled(task: Task, run: Execution) -> None:
    """By somebody who stopped the run; the tasks of an identity that was stopped are counted where that is done."""
    if _is_left_to(cancelling.STEP, run):
        return
    # Who has moved the run need not have read who asked for that.
    who, why = Execution.objects.values_list("cancelled_by_name", "cancel_reason").get(pk=run.pk)
    said = f"its run {run} was stopped by {who}: {why}" if who else f"its run {run} was given up"
    cancelling.end(task, STOPPED, said.rstrip("."))


def _is_left_to(step: StopStep, run: Execution) -> bool:
    """Whether the kill switch is about to do it."""
    pending = Identity.objects.filter(pk=run.identity_id).values_list("stop_pending", flat=True).first()
    return step.name in (pending or [])


def _ended(task: Task, run: Execution) -> None:
    if run.status == ExecutionStatus.SUCCESS:
        _succeeded(task, run)
        return
    code = TIMEOUT if run.status == ExecutionStatus.TIMEOUT else CODES.get(run.error_category, CODES["SystemError"])
    why = public_errors.of_run(run)
    rest, failed = relaying.broken_off(task, run), Status(TaskState.FAILED, parts.message_of_agent(why), code, why)
    try:
        _write(task, run, *rest, failed)
    except PayloadTooLarge:
        _write(task, run, failed)
    cancelling.cancel_within(task, f"the {task} failed")


def _succeeded(task: Task, run: Execution) -> None:
    try:
        _write(task, run, *(_asked(task, run) if run.exit_code == ASKS else _done_by(task, run)))
    except (PayloadTooLarge, writer.TaskFull) as refused:
        # What the run came to stands on its own page; its task must not stay open for it.
        _write(task, run, Status(TaskState.FAILED, None, refused.code, refused.message))
        cancelling.cancel_within(task, f"the {task} failed")


def _done_by(task: Task, run: Execution) -> list[Change]:
    return [*relaying.closing(task, _made(run)), Status(TaskState.COMPLETED)]


def _asked(task: Task, run: Execution) -> list[Change]:
    """What it answered is a question; once that is answered, another run goes on."""
    made = _made(run)
    question = Status(TaskState.INPUT_REQUIRED, parts.message(Role.AGENT, made.artifact["parts"]) if made else None)
    endpoint_room.require_said(task.agent, question.shown)
    return [*relaying.broken_off(task, run), question]


def _write(task: Task, run: Execution, *changes: Change) -> None:
    """With the start before it, where nobody has told of that."""
    writer.prepare(*changes)
    with transaction.atomic():
        held = writer.locked(task.pk)
        if held.is_open and not relaying.is_still(held, task):
            raise _ToldMeanwhile
        told = relaying.begun(held, run)
        if told or changes:
            writer.write(held, *told, *changes)


def _made(run: Execution) -> Made | None:
    """What it answered: an agent of the pattern json-rpc a value, any other a text."""
    result = ExecutionResult.objects.filter(execution=run).first()
    if result is None or not result.output:
        return None
    part = parts.text(result.output)
    if run.agent.output_pattern == OutputPattern.JSON_RPC:
        with suppress(ValueError):  # a text was its answer, or more than is kept
            part = parts.data(strict_json.loads(result.output.encode()))
    more: dict[str, Any] = {"metadata": {"truncated": True}} if result.output_truncated else {}
    return Made({**parts.artifact([part]), **more})
