"""A whole chain at once: its tasks, the runs that worked on them, and the calls of tools that were made.

From any task, run or call in it. Whoever looks sees of it what they see of each by itself.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import F, Q, QuerySet

from a2a.chains import MAX_CHAIN_DEPTH
from a2a.models import Task
from nhi.actors import Actor
from nhi.models import InvocationLog
from supervisor.models import Execution

MOST_TASKS, MOST_RUNS, MOST_CALLS = 200, 200, 500
#: What none of them is shown with, some of it long.
OF_TASKS = ("input", "result", "metadata", "status_message", "allowed_by", "sealed_callback_url", "lease_mark")
OF_RUNS = ("input", "parameters", "sealed_input", "context", "working_directory")
OF_CALLS = ("details", "error_message", "row_mac", "chain")


@dataclass(frozen=True)
class Trace:
    """Each kind in the order of its beginning."""

    tasks: Sequence[Task] = ()
    executions: Sequence[Execution] = ()
    calls: Sequence[InvocationLog] = ()
    #: There is more than is told.
    truncated: bool = False


def of_task(actor: Actor, task: Task) -> Trace:
    whole = Q(root_id=task.root_id) if task.root_id is not None else Q(pk=task.pk)
    seen = Task.objects.visible_to(actor).filter(whole).select_related("source")
    tree = seen.annotate(parent_execution_id=F("parent__execution_id"))
    found = list(tree.defer(*OF_TASKS).order_by("created_at", "id")[: MOST_TASKS + 1])
    tasks = found[:MOST_TASKS]
    if all(one.pk != task.pk for one in tasks):
        # Of many it is a late one; or it is not theirs to see, and then nothing of it is.
        tasks += tree.filter(pk=task.pk)
    runs = _runs(actor, Q(task_id__in=[one.pk for one in tasks])) if tasks else []
    return _with_calls(actor, tasks, runs, cut=len(found) > MOST_TASKS)


def of_run(actor: Actor, run: Execution) -> Trace:
    """The tree of its task; of one that no task stands behind, the runs below the first that asked."""
    top = _top(run)
    task = Task.objects.filter(pk=top.task_id).first() if top.task_id is not None else None
    if task is not None:
        return of_task(actor, task)
    return _with_calls(actor, [], _runs(actor, Q(pk=top.pk)))


def of_call(actor: Actor, call: InvocationLog) -> Trace:
    run = Execution.objects.filter(pk=call.execution_id).first() if call.execution_id is not None else None
    if run is not None:
        return of_run(actor, run)
    named = _uuid(call.task_id)
    task = Task.objects.filter(pk=named).first() if named is not None else None
    return of_task(actor, task) if task is not None else Trace(calls=[call])


def _top(run: Execution) -> Execution:
    for _ in range(MAX_CHAIN_DEPTH):
        above = Execution.objects.filter(pk=run.parent_id).first() if run.parent_id and not run.task_id else None
        if above is None:
            break
        run = above
    return run


def _runs(actor: Actor, first: Q) -> list[Execution]:
    """These, the runs that they asked for, and so on."""
    seen = Execution.objects.visible_to(actor).defer(*OF_RUNS).order_by("created_at", "id")
    found: dict[UUID, Execution] = {}
    wanted = first
    for _ in range(MAX_CHAIN_DEPTH + 1):
        level = [run for run in seen.filter(wanted)[: MOST_RUNS + 1] if run.pk not in found]
        found |= {run.pk: run for run in level}
        if not level or len(found) > MOST_RUNS:
            break
        wanted = Q(parent_id__in=[run.pk for run in level])
    return sorted(found.values(), key=lambda run: (run.created_at, run.pk))


def _with_calls(actor: Actor, tasks: list[Task], runs: list[Execution], *, cut: bool = False) -> Trace:
    calls = list(_calls(actor, tasks, runs[:MOST_RUNS])[: MOST_CALLS + 1])
    truncated = cut or len(runs) > MOST_RUNS or len(calls) > MOST_CALLS
    return Trace(tasks, runs[:MOST_RUNS], calls[:MOST_CALLS], truncated)


def _calls(actor: Actor, tasks: Sequence[Task], runs: Sequence[Execution]) -> QuerySet[Any]:
    """Of the calls that name a task only those of its agent: anybody may name any."""
    seen = InvocationLog.objects.visible_to(actor)
    agents = {task.agent_id for task in tasks}
    within = seen.filter(task_id__in=[str(task.pk) for task in tasks], agent_id__in=agents).exclude(task_id="")
    # A run that names another task of its agent is refused, and its call is none of that task's.
    within = within.exclude(reason="task_not_yours")
    in_runs = seen.in_runs([run.pk for run in runs])
    return (within | in_runs).defer(*OF_CALLS).order_by("timestamp", "id")


@dataclass
class Step:
    """One of them in the tree, with what came of it; several calls of one tool that ended alike are one step."""

    row: Task | Execution | InvocationLog
    depth: int = 0
    count: int = 1
    ended: datetime | None = None
    below: "list[Step]" = field(default_factory=list)


def steps(trace: Trace) -> list[Step]:
    """From the top downwards, each below what it is a part of, in the order of their beginnings."""
    tasks = {task.pk: Step(task) for task in trace.tasks}
    runs = {run.pk: Step(run) for run in trace.executions}
    tops: list[Step] = []

    def below(*ids: UUID | None) -> list[Step]:
        """What stands under the first of these that is told; else it stands by itself."""
        found = (runs.get(one) or tasks.get(one) for one in ids if one is not None)
        return next((step.below for step in found if step is not None), tops)

    for run in trace.executions:
        below(run.task_id, run.parent_id).append(runs[run.pk])
    for call in trace.calls:
        _put_call(below(call.execution_id, _uuid(call.task_id)), call)
    for task in trace.tasks:
        below(_sent_by(task), task.parent_id).append(tasks[task.pk])
    return list(_walked(tops, 0))


def _sent_by(task: Task) -> UUID | None:
    """The run that sent it; else the run of the task that this one is a part of, where that is done by runs."""
    return task.sent_by_run_id or getattr(task, "parent_execution_id", None)


def began(row: Task | Execution | InvocationLog) -> datetime:
    return row.timestamp if isinstance(row, InvocationLog) else row.created_at


def _put_call(steps: list[Step], call: InvocationLog) -> None:
    said = (call.tool_name, call.method, call.status, call.reason)
    for step in steps:
        first = step.row
        if isinstance(first, InvocationLog) and (first.tool_name, first.method, first.status, first.reason) == said:
            step.count += 1
            step.ended = call.timestamp
            return
    steps.append(Step(call, ended=call.timestamp))


def _walked(steps: list[Step], depth: int) -> Iterator[Step]:
    for step in sorted(steps, key=lambda step: (began(step.row), step.row.pk)):
        step.depth = depth
        yield step
        yield from _walked(step.below, depth + 1)


def _uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None
