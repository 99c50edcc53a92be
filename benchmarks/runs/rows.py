"""What the measured installation keeps: who asks, the agents, and what came of their runs."""

from uuid import UUID

from benchmarks.runs.programs import AT_ONCE, RESTING, SECONDS, Programs
from nhi import actors
from nhi.actors import SYSTEM
from nhi.choices import Kind
from nhi.identities import identities
from nhi.models import User
from nhi.people import people
from supervisor import agents
from supervisor.access import Caller
from supervisor.models import Agent, ExecutionResult

WHO = "mara"
#: As many as may wait.
PLENTY = 1_000


def make(programs: Programs) -> None:
    people.create(actor=SYSTEM, username=WHO, roles=("security-admin", "operator"))
    for name in SECONDS:
        add(name, programs.path(name), places=None if name == RESTING else AT_ONCE)


def add(name: str, path: str, *, places: int | None = AT_ONCE) -> Agent:
    """One with an identity of its own, which is not tried again: a run that fails is an error here."""
    owner = User.objects.get(username=WHO)
    identity = identities.create(actor=SYSTEM, kind=Kind.AGENT, name=name, owner=owner)
    given = {
        "name": name, "executable_path": path, "max_concurrent_executions": places, "max_retries": 0,
        "queue_depth": PLENTY,
    }  # fmt: skip
    return agents.create(actor=caller().actor, identity=identity, given=given)


def caller() -> Caller:
    return Caller(actors.person(User.objects.get(username=WHO)))


def agent(name: str) -> Agent:
    return Agent.objects.select_related("identity").get(name=name)


def output(execution: UUID) -> str:
    result = ExecutionResult.objects.get(execution_id=execution)
    if result.status != "success":
        raise SystemExit(f"A run did not end well: {result.status}, {result.error!r}")
    return result.output
