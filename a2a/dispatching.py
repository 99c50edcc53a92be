"""Tasks of agents that run here become runs: each once, the oldest first, as soon as there is a place in the queue.

The task's row is the truth. A message tells a worker to look at an agent's tasks at once; the clock looks at all of
them. Between two that look at once, the lock of the task's row decides: the run and the task's knowledge of it are
written together.
"""

import logging
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import transaction

from a2a import cancelling, given, runtimes, waking, writer
from a2a.changes import Status
from a2a.choices import RUN_HERE, RuntimeKind, TaskState
from a2a.models import Task
from a2a.models.tasks import TaskQuerySet
from a2a.runtimes import Behind
from common.db import clock
from common.errors import Conflict, GatehouseError, InvalidInput, InvalidTransition
from nhi.actors import SYSTEM
from nhi.identities import lifecycle
from nhi.models import Identity
from supervisor import submitting
from supervisor import waking as supervisor_waking
from supervisor.access import Caller
from supervisor.admission import NoRoom
from supervisor.choices import Mode, Trigger
from supervisor.models import Agent
from supervisor.submitting import Wish

log = logging.getLogger(__name__)
#: No token is shown: whether it may be asked was decided when the task was sent.
HOUSE = Caller(SYSTEM)
MOST_AT_ONCE = 100
#: Of a task whose input does not fit what runs.
UNFIT = "invalid_parameters"
#: New, or answered after a run that asked.
WAITS = frozenset({TaskState.SUBMITTED, TaskState.WORKING})
#: How long a task waits for a place in the queue; and after a fault of ours.
PATIENCE, PAUSE = timedelta(hours=1), timedelta(seconds=5)


class NoAgent(Conflict):
    """What was to run it is not there any more, or is interactive now."""

    code = "agent_unusable"


def place(task: Task) -> Behind:
    """Say on a row that is to be written what does this task."""
    behind = runtimes.of(task.agent)
    task.runtime_kind, task.runtime = behind.kind, behind.chosen
    task.runs_agent_id = behind.agent.pk if behind.agent else None
    task.dispatch_at = None if behind.kind == RuntimeKind.INBOX else task.created_at
    return behind


def anew(task: Task) -> dict[str, Any]:
    """What becomes of the leases of a task whose caller has answered: whoever does it takes it up from there."""
    if task.runtime_kind == RuntimeKind.REMOTE:
        return {"dispatch_at": clock.database_now()}
    if task.runtime_kind in RUN_HERE:
        return {"dispatch_at": clock.database_now(), "execution_id": None, "relayed": 0}
    # It was brought back, with a question: that counts as no worker that was never heard of again.
    return {"lease_mark": None, "lease_until": None, "claims": 0}


def announce(task: Task) -> None:
    """Once it is committed, tell whoever has to do with it."""
    if task.runs_agent_id is not None:
        waking.dispatch(task.runs_agent_id)
    elif task.runtime_kind == RuntimeKind.REMOTE:
        waking.carry()


def dispatch_due() -> None:
    """The clock's part: the agents for which tasks wait."""
    for agent_id in set(_waiting().values_list("runs_agent_id", flat=True)[:MOST_AT_ONCE]):
        assert agent_id is not None  # a task that runs here says which agent runs it
        dispatch(agent_id)


def dispatch(agent_id: UUID) -> int:
    """Ask for runs of this agent until none of its tasks waits, or there is no place for another; how many."""
    begun = 0
    for task in _waiting().filter(runs_agent_id=agent_id).select_related("agent", "parent")[:MOST_AT_ONCE]:
        try:
            begun += _begin(task)
        except NoRoom as full:
            if clock.database_now() - _waits_since(task) < PATIENCE:
                break
            _refuse(task, full)
        except GatehouseError as error:
            _refuse(task, error)
        except Exception:
            log.exception("A task could not be dispatched.", extra={"task": str(task.pk)})
            _waiting().filter(pk=task.pk).update(dispatch_at=clock.database_now() + PAUSE)
    return begun


def _waiting() -> TaskQuerySet:
    here = Task.objects.due().filter(state__in=WAITS, runtime_kind__in=RUN_HERE, execution_id=None)
    return here.order_by("created_at", "id")


def _waits_since(task: Task) -> datetime:
    return task.created_at if task.state == TaskState.SUBMITTED else task.state_at


def _begin(task: Task) -> int:
    """One, unless another was quicker."""
    wish = _wish(task)
    with transaction.atomic():
        agent = _locked_agent(task)
        held = writer.locked(task.pk)
        if held.state not in WAITS or held.execution_id is not None:
            return 0
        if not Identity.objects.usable().filter(pk=agent.identity_id).exists():
            why = lifecycle.why_inactive(agent.identity)
            cancelling.end(held, cancelling.STOPPED, f"{agent.identity.name} may not act", why=why)
            return 0
        submitting.require_on(agent)
        submitting.check(agent, wish)
        run = submitting.insert(caller=HOUSE, agent=agent, wish=wish, by=_by(task)).execution
        Task.objects.filter(pk=held.pk).update(execution_id=run.pk, dispatch_at=None)
    supervisor_waking.wake()
    return 1


def _locked_agent(task: Task) -> Agent:
    """Before the task's row: runs that are asked for otherwise are counted by the agent's."""
    assert task.runs_agent_id is not None  # a task that runs here says which agent runs it
    rows = Agent.objects.select_for_update(of=("self",)).select_related("identity")
    agent = rows.filter(pk=task.runs_agent_id, mode=Mode.TASK).first()
    if agent is None:
        raise NoAgent(f"What runs the tasks of {task.agent_name} runs no tasks any more.")
    return agent


def _wish(task: Task) -> Wish:
    wished: dict[str, Any] = {"trigger": Trigger.TASK, "task_id": task.pk}
    if task.state == TaskState.SUBMITTED:
        said = given.for_run(given.message(task)["parts"])
    else:
        wished["conversation"] = given.conversation(task)
        said = given.to_go_on(wished["conversation"])
    return Wish(input=said.input, parameters=said.parameters, **wished)


def _by(task: Task) -> dict[str, Any]:
    """For whom it runs; and behind which runs, where one of them sent the task."""
    by: dict[str, Any] = {"task": str(task.pk), "sent_by": task.created_by_name, "chain": task.chain}
    above = task.sent_by_run_id or (task.parent.execution_id if task.parent else None)
    return {**by, "parent": str(above)} if above else by


def _refuse(task: Task, error: GatehouseError) -> None:
    code = UNFIT if isinstance(error, InvalidInput) else error.code
    status = Status(TaskState.FAILED, error_code=code, error_message=error.message)
    try:
        writer.apply_event(task.pk, status, check=_still_waits)
    except (writer.TaskEnded, InvalidTransition):
        return
    cancelling.cancel_within(task, f"the {task} failed")


def _still_waits(task: Task) -> None:
    if task.execution_id is not None:
        raise InvalidTransition(f"The {task} has a run by now.")
