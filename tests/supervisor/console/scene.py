"""Agents and runs for pages to show: run by nobody, moved through their states by the verb that moves real ones."""

from datetime import timedelta
from typing import Any

from django.utils import timezone

from common.db import clock
from nhi import actors
from nhi.actors import SYSTEM
from nhi.models import InvocationLog, User
from supervisor import agents, lifecycle, submitting
from supervisor.access import Caller
from supervisor.choices import ErrorCategory, ExecutionState, Trigger
from supervisor.models import Agent, Execution, ExecutionResult, OutputChunk, ResourceUsage, Runner
from supervisor.submitting import Wish
from tests.console import calling
from tests.console.conftest import identity
from tests.console.reading import main_of as main_of
from tests.console.reading import queries as queries
from tests.console.reading import text as text
from tests.supervisor.rows import EXAMPLE

S = ExecutionState
AGENTS, RUNS, QUEUE = "/admin/supervisor/agent/", "/admin/supervisor/execution/", "/admin/runs/queue/"
AGENT_TABS = ("", "runs/", "changes/")
PART = {"X-Console-Part": "1"}
RUN_TABS = ("", "input/", "calls/", "resources/", "attempts/", "transitions/")


def agent(
    name: str, *, of: str = "deploy-bot", envs: dict[str, str] | None = None, api_key: str = "", **given: Any
) -> Agent:
    described = {"name": name, "executable_path": EXAMPLE, **given}
    return agents.create(actor=SYSTEM, identity=identity(of), given=described, envs=envs, api_key=api_key)


def asked(of: Agent, said: str = "Ship it.", *, by: str = "mara", **wish: Any) -> Execution:
    """A run that waits."""
    caller = Caller(actors.person(User.objects.get(username=by)))
    wanted = Wish(input=said, trigger=Trigger.MANUAL, **wish)
    return submitting.submit(caller=caller, agent=of, wish=wanted).execution


def started(run: Execution) -> Execution:
    """One that a worker holds."""
    now = clock.database_now()
    return lifecycle.walk(
        run, [(S.STARTING, "Slot 1."), (S.RUNNING, "Process 4121.")], at=now, slot=1, start_time=now, process_id=4121
    )


def ended(run: Execution, outcome: ExecutionState = S.COMPLETED, *, said: str = "Done\n", why: str = "") -> Execution:
    """One that was run, with what it wrote and used."""
    failed = {"error_category": ErrorCategory.AGENT_ERROR, "error_message": why} if why else {}
    lifecycle.walk(
        started(run), [(outcome, why), (S.CLEANUP, ""), (S.IDLE, "")], slot=None, exit_code=1 if why else 0, **failed
    )
    wrote(run, 1, said)
    ExecutionResult.objects.create(execution=run, status=run.status or "", output=said, output_bytes=len(said))
    samples = [[0.1, 20.0, 12.0, 0.0, 0.0], [0.6, 3.0, 14.0, 1.0, 2.0]]
    ResourceUsage.objects.create(execution=run, cpu_percent=11.5, peak_memory_mb=14.0, samples=samples)
    return run


def wrote(run: Execution, seq: int, text: str, stream: str = "out") -> None:
    OutputChunk.objects.create(execution=run, seq=seq, stream=stream, at=run.created_at, text=text)


def many(of: Agent, count: int) -> None:
    """So many that ended long ago, all at once."""
    of.refresh_from_db()
    now = timezone.now()
    Execution.objects.bulk_create(
        Execution(
            agent=of, agent_name=of.name, identity_id=of.identity_id, identity_name=of.identity.name,
            number=of.runs + number, state=S.IDLE, status="success", timeout=60, moves=6, started_by_name="mara",
            created_at=now - timedelta(hours=2, seconds=number), start_time=now - timedelta(hours=2),
            end_time=now - timedelta(hours=1), wait_until=now,
        )
        for number in range(1, count + 1)
    )  # fmt: skip
    Agent.objects.filter(pk=of.pk).update(runs=of.runs + count)


def page_of(run: Execution, tab: str = "") -> str:
    return f"{RUNS}{run.pk}/{tab}"


def call_in(run: Execution) -> InvocationLog:
    return calling.call(run.agent.identity.name, run_id=run.pk)


def runner(**facts: object) -> Runner:
    known = {"host": "one", "pid": 7, "process_start": 0.0, "boot": "b", "capacity": 8, "disk_free_mb": 90_000.0}
    return Runner.objects.create(**{**known, **facts})
