"""The part of `rows` of what agents do: runs, sessions and schedules, tasks and what is told of them."""

from datetime import datetime, timedelta

from django.db import transaction
from django.utils import timezone

from a2a import (
    card_changes,
    endpoint_changes,
    inbox,
    pushing,
    runtimes,
    tallies,
    waiting,
    webhooks,
)
from a2a.choices import TaskState
from a2a.models import (
    Delivery,
    DeliveryAttempt,
    DisabledUrl,
    RemoteTask,
    SentOnce,
    Task,
)
from a2a.operations import reading
from common.api.signed_cursors import SignedCursors
from common.ids import uuid7
from mcp.models import CallApproval
from nhi import actors
from nhi.actors import SYSTEM
from nhi.credentials import run_tokens
from nhi.credentials.run_tokens import RunTokenRequest
from nhi.hooks import WaitingCall
from nhi.models import Identity, User
from supervisor import agents, lifecycle, schedules, sessions, slots, submitting
from supervisor.access import Caller
from supervisor.choices import AccessType, ErrorCategory, ExecutionState, FireState
from supervisor.models import Attempt, Execution, Runner, ScheduleFire
from supervisor.submitting import Wish
from tests.a2a import rows as task_rows
from tests.supervisor.rows import EXAMPLE

RUNS_AS, WORKS_AS, CALLER = "triage-bot", "writer", "planner"
ADDRESS = "https://93.184.215.14"


def runs(far: datetime) -> str:
    """A run and a session that a worker elsewhere has, a run that waits for its place; the token of the first."""
    identity = Identity.objects.get(name=RUNS_AS)
    caller = Caller(SYSTEM)
    read_write = {"name": "upgrade", "executable_path": EXAMPLE, "access_type": AccessType.READ_WRITE}
    agent = agents.create(actor=SYSTEM, identity=identity, given=read_write, envs={"API_KEY": "secret-of-a-variable"})
    model = {"name": "upgrade-model", "kind": "model", "base_url": f"{ADDRESS}/v1", "model": "small"}
    agents.create(actor=SYSTEM, identity=identity, given=model, api_key="key-of-a-model")
    interactive = agents.create(
        actor=SYSTEM, identity=identity, given={**read_write, "name": "upgrade-talks", "mode": "interactive"}
    )
    under_way, _ = (
        submitting.submit(caller=caller, agent=agent, wish=Wish(input=f"Secret input {number}.")).execution
        for number in range(2)
    )
    session = sessions.open(caller=caller, agent=interactive)
    sessions.say(caller=caller, session=session, text="The password is hunter2.")
    start_elsewhere([under_way, session.execution], far)
    Attempt.objects.create(
        execution=under_way, attempt=1, end_time=timezone.now(), error_category=ErrorCategory.TRANSIENT
    )
    inputs = {"input": "A schedule's secret input.", "parameters": {}}
    schedule_fields = {"name": "upgrade by clock", "cron_expression": "@yearly"}
    schedule = schedules.create(actor=SYSTEM, agent=agent, given=schedule_fields, inputs=inputs)
    ScheduleFire.objects.create(schedule=schedule, due_at=timezone.now(), state=FireState.SKIPPED, reason="Paused")
    now = timezone.now()
    opening = RunTokenRequest(identity, under_way.pk, (far - now).total_seconds())
    return run_tokens.issue_tokens([opening], actor=SYSTEM, at=now)[under_way.pk]


def start_elsewhere(executions: list[Execution], far: datetime) -> None:
    """Give these runs to a worker on another host, of which the database says that it was heard of just now."""
    now = timezone.now()
    Runner.objects.all().delete()
    runner = Runner.objects.create(
        host="worker.example", pid=7, process_start=0.0, boot="elsewhere", capacity=4, used=len(executions),
        disk_free_mb=10.0**6, seen_at=far,
    )  # fmt: skip
    Execution.objects.queued().update(wait_until=far)
    with transaction.atomic():
        for run in slots.take(executions, runner_id=runner.pk, at=now):
            lifecycle.move(run, ExecutionState.RUNNING, "Started elsewhere.")


def tasks(far: datetime) -> dict[str, str]:
    """Tasks in several states, whom to tell of them, how they are reached and done; the token of a lease."""
    worker = Identity.objects.get(name=WORKS_AS)
    runtimes.choose(actor=SYSTEM, identity=worker, kind="inbox")
    secret = {"password": "correct-horse-battery"}
    callback = f"{ADDRESS}/done?token=a1b2c3d4e5f6g7h8"
    sealed = task_rows.sent(worker, given=secret, callback_url=callback)
    pushing.make(
        actor=SYSTEM, task=sealed, wire_version="1.0", asked={"url": f"{ADDRESS}/events", "token": "push-token"}
    )
    pieces = {"artifactId": "draft", "name": "draft", "parts": [{"text": "All "}]}
    leased = task_rows.sent(worker)
    lease = inbox.claim(task=leased, lease_seconds=3600).lease_token
    inbox.make(task=leased, lease_token=lease, artifact=pieces, last=False)
    inbox.make(task=leased, lease_token=lease, artifact={**pieces, "parts": [{"text": "agreed."}]}, append=True)
    wait_for_approval(worker)
    delivery = task_rows.told(worker)
    DeliveryAttempt.objects.create(delivery=delivery, number=1, at=timezone.now())
    DisabledUrl.objects.create(owner_id=delivery.owner_id, url_mark="0" * 64, at=timezone.now())
    keep_secrets(far)
    reach_and_describe(worker)
    tallies.add_up()
    Delivery.objects.pending().update(next_at=far)
    Task.objects.filter(lease_until__isnull=False).update(lease_until=far)
    SentOnce.objects.update(at=far)
    return {"task": str(leased.pk), "token": lease}


def wait_for_approval(worker: Identity) -> None:
    """A task within which a call waits for a person, the one that work over REST left behind."""
    approval = CallApproval.objects.get()
    task = task_rows.sent(worker)
    task_rows.claimed(task)
    waiting.waits(WaitingCall(approval.pk, task.pk, approval.tool_name, approval.expires_at))
    assert Task.objects.get(pk=task.pk).state == TaskState.AUTH_REQUIRED


def keep_secrets(far: datetime) -> None:
    """A webhook secret beside which the ones before it sign; until when they do is sealed with them."""
    webhooks.OVERLAP = far - timezone.now()
    person = actors.person(User.objects.get(username="mara"))
    new = webhooks.make(actor=person, url_prefix=f"{ADDRESS}/")
    webhooks.rotate(actor=person, secret=new.row)


def reach_and_describe(worker: Identity) -> None:
    """A card, a skill, an endpoint, and an agent whose tasks another server does."""
    card_changes.change(actor=SYSTEM, identity=worker, version="2.0.0")
    card_changes.put_skill(actor=SYSTEM, identity=worker, skill={"skill_id": "sort", "name": "Sort"})
    endpoint_changes.change(actor=SYSTEM, identity=worker, tasks_per_minute=60)
    remote = Identity.objects.get(name=CALLER)
    task = task_rows.sent(remote)
    task_rows.moved(task, TaskState.REJECTED)
    RemoteTask.objects.create(
        task=task, url=f"{ADDRESS}/a2a", version="1.0", binding="JSONRPC", context_id=task.context_id, over=True
    )
    runtimes.choose(
        actor=SYSTEM, identity=remote, kind="remote", url=f"{ADDRESS}/a2a", header="Authorization", scheme="Bearer",
        credential="credential-of-a-remote-server",
    )  # fmt: skip


def cursor(far: datetime) -> str:
    """The page of the caller's tasks at the worker that begins behind everything that is newer than now."""
    caller = Identity.objects.get(name=CALLER)
    place = f"{(timezone.now() + timedelta(days=1)).isoformat()} {uuid7()}"
    return SignedCursors(reading.sign, str(caller.pk), WORKS_AS).encode_cursor(place, now=far.timestamp())
