"""What the supervisor keeps, made without a runner: for tests that only look."""

from dataclasses import dataclass

from django.conf import settings

from nhi.actors import SYSTEM
from nhi.models import Identity
from supervisor import agents, schedules, sessions, submitting
from supervisor.access import Caller
from supervisor.models import Agent, Execution, Schedule, Session
from supervisor.submitting import Wish

#: Needs no allowlist.
EXAMPLE = str(settings.BASE_DIR / "examples" / "agents" / "summarise.py")


@dataclass
class Kept:
    agent: Agent
    run: Execution
    schedule: Schedule
    session: Session


def keep(identity: Identity, name: str = "kept") -> Kept:
    """One of each, of this identity: the run waits, and so does the session's."""
    agent = _agent(identity, name)
    caller = Caller(SYSTEM)
    by_clock = {"name": name, "cron_expression": "@daily"}
    return Kept(
        agent=agent,
        run=submitting.submit(caller=caller, agent=agent, wish=Wish(input="Plants need water.")).execution,
        schedule=schedules.create(actor=SYSTEM, agent=agent, given=by_clock),
        session=sessions.open(caller=caller, agent=_agent(identity, f"{name}-talks", mode="interactive")),
    )


def _agent(identity: Identity, name: str, **given: str) -> Agent:
    return agents.create(actor=SYSTEM, identity=identity, given={"name": name, "executable_path": EXAMPLE, **given})
