"""An agent that has an inbox for its workers and a program for its runs, and everything of it that is not one run's."""

from collections.abc import Iterator
from dataclasses import dataclass
from uuid import UUID

import pytest

from a2a import dispatching, runtimes
from a2a.models import Delivery, Task, WebhookSecret
from a2a.news import notifier
from a2a.operations.desk import desk
from common.ids import uuid7
from nhi.actors import SYSTEM
from nhi.models import Credential, Identity, InvocationLog, NhiPermission
from supervisor import sessions, submitting
from supervisor.access import Caller as Asking
from supervisor.models import Agent, Execution, Schedule, Session
from supervisor.runner import claiming
from tests.a2a import rows
from tests.a2a.conftest import Stage
from tests.api.callers import Caller
from tests.api.mcp import rows as calls
from tests.nhi import cast
from tests.supervisor import rows as supervised

__all__ = ["Scene", "Theirs", "scene"]


@dataclass
class Theirs:
    """What belongs to the same agent and not to the run: each of these its credential may read."""

    #: A third party's, in the agent's inbox.
    offered: Task
    #: A third party's, which another run of the agent works on.
    other_task: Task
    #: Sent by the agent with its credential.
    sent: Task
    run: Execution
    session: Session
    schedule: Schedule
    secret: WebhookSecret
    delivery: Delivery
    call: InvocationLog
    approval: calls.CallApproval
    credential: Credential


@dataclass
class Scene:
    stage: Stage
    #: Whom the writer may ask.
    checker: Identity
    agent: Agent
    #: Of the run that works on `task`, and of a run without a task.
    bound: Caller
    free: Caller
    bound_run: UUID
    free_run: UUID
    task: Task
    theirs: Theirs
    grant: NhiPermission

    def run(self, name: str) -> Caller:
        return {"bound": self.bound, "free": self.free}[name]

    @property
    def worker(self) -> Caller:
        """The agent by its credential."""
        return self.stage.worker

    def sends(self, caller: Caller, **more: str) -> str:
        """The id of a task that the writer has sent to the checker."""
        body = {"target_agent_id": str(self.checker.pk), "task_type": "check", "input": {"a": 1}, **more}
        reply = caller.post("a2a/tasks", body)
        assert reply.status == 201, reply.body
        return str(reply.body["task_id"])


def claimed() -> dict[UUID, str]:
    """The tokens of the runs that wait, as a worker is given them."""
    return {one.run.pk: one.token for one in claiming.claim(runner_id=uuid7(), room=8)}


@pytest.fixture
def scene(open_stage: Stage) -> Iterator[Scene]:
    """The tasks are sent over REST, dispatched by the dispatcher, and their runs claimed as a worker claims them."""
    stage, checker = open_stage, cast.agent("checker")
    grant = cast.nhi_grant(stage.writer, checker)
    runtimes.choose(actor=SYSTEM, identity=stage.writer, kind="inbox")
    offered = Task.objects.get(pk=stage.sent())
    runtimes.leave_open(actor=SYSTEM, identity=stage.writer)
    agent = supervised._agent(stage.writer, "cli-writer")
    task, other_task = (Task.objects.get(pk=stage.sent()) for _ in range(2))
    free_run = submitting.submit(caller=Asking(SYSTEM), agent=agent, wish=submitting.Wish(input="x")).execution.pk
    dispatching.dispatch_due()
    tokens = claimed()
    task.refresh_from_db()
    other_task.refresh_from_db()
    assert task.execution_id is not None
    yield Scene(
        stage=stage,
        checker=checker,
        agent=agent,
        bound=Caller(tokens[task.execution_id]),
        free=Caller(tokens[free_run]),
        bound_run=task.execution_id,
        free_run=free_run,
        task=task,
        theirs=theirs(stage, checker, offered, other_task),
        grant=grant,
    )
    desk.close()
    notifier.close()


def theirs(stage: Stage, checker: Identity, offered: Task, other_task: Task) -> Theirs:
    sent = stage.sends(stage.worker, target_agent_id=str(checker.pk)).body["task_id"]
    kept = supervised.keep(stage.writer, "more")
    talker = supervised._agent(checker, "talks", mode="interactive")
    loaded = Asking(SYSTEM)
    session = sessions.open(caller=loaded, agent=talker)
    Session.objects.filter(pk=session.pk).update(opened_by_id=stage.writer.pk)
    made = calls.keep(stage.mara, stage.writer)
    secret = stage.worker.post("a2a/webhook-secrets", {"url_prefix": "https://hooks.example.com/"})
    assert secret.status == 201, secret.body
    told = rows.sent(checker, source_agent_id=stage.writer.pk, callback_url="https://hooks.example.com/done")
    rows.moved(told, rows.TaskState.REJECTED)
    own = Credential.objects.long_lived().filter(identity=stage.writer).latest("created_at")
    return Theirs(
        offered=offered,
        other_task=other_task,
        sent=Task.objects.get(pk=sent),
        run=Execution.objects.get(pk=other_task.execution_id),
        session=session,
        schedule=kept.schedule,
        secret=WebhookSecret.objects.get(pk=secret.body["id"]),
        delivery=Delivery.objects.get(task=told),
        call=made.call,
        approval=made.approval,
        credential=own,
    )
