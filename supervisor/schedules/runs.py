"""Asking for the runs of schedules that are due: what is asked of many is looked up once.

Nothing here waits for a place or refuses loudly: what stands in the way is kept beside the due time, in a sentence.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

from common.db import clock
from common.errors import Conflict, GatehouseError
from nhi.actors import SYSTEM
from nhi.choices import Kind, State
from nhi.models import Identity
from supervisor import admission, schedules, submitting, waking
from supervisor.access import Caller
from supervisor.admission import NoRoom
from supervisor.choices import FireState, Mode, Trigger
from supervisor.models import Agent, Execution, Schedule
from supervisor.schedules import clock as schedule_clock
from supervisor.schedules import facts as schedule_facts
from supervisor.submitting import SwitchedOff

#: No token is shown: a schedule runs because somebody who may said so.
CLOCK = Caller(SYSTEM)


class Unusable(Conflict):
    """The identity that the agent acts as may not act."""

    code = "target_unusable"


@dataclass(frozen=True)
class Outcome:
    """What came of asking for a run."""

    execution_id: UUID | None = None
    state: FireState = FireState.FIRED
    reason: str = ""
    #: There is no room just now, and there may be in a moment.
    passing: bool = False


class Batch:
    """Some schedules, whose rows the caller has locked, with the agents they run, locked too."""

    def __init__(self, locked: Sequence[Schedule]) -> None:
        self.now, self.real_now = schedule_clock.now(), clock.database_now()
        self.running = schedule_facts.running(locked)
        self.begun: list[Execution] = []
        rows = Agent.objects.select_for_update(of=("self",)).select_related("identity").order_by("pk")
        self._agents = {agent.pk: agent for agent in rows.filter(pk__in={schedule.agent_id for schedule in locked})}
        acting = Identity.objects.usable().filter(kind=Kind.AGENT, agents__in=self._agents)
        self._usable = set(acting.values_list("pk", flat=True))
        self._rooms, self._strain = admission.rooms(self._agents.values()), admission.overload()

    def begin(self, schedule: Schedule, due_at: datetime) -> Outcome:
        try:
            return Outcome(self._submit(schedule, due_at))
        except (SwitchedOff, Unusable) as error:
            return Outcome(state=FireState.SKIPPED, reason=error.message)
        except NoRoom as error:
            return Outcome(state=FireState.FAILED, reason=error.message, passing=True)
        except GatehouseError as error:
            return Outcome(state=FireState.FAILED, reason=error.message[:500])

    def _submit(self, schedule: Schedule, due_at: datetime) -> UUID:
        agent = self._agents[schedule.agent_id]
        if agent.identity_id not in self._usable:
            raise Unusable(_unusable(agent))
        if agent.mode != Mode.TASK:
            raise Conflict(f"{agent} is interactive now and runs no tasks.")
        wish = schedules.wish(schedule, trigger=Trigger.SCHEDULE, due_at=due_at.isoformat())
        submitting.require_on(agent)
        submitting.check(agent, wish)
        self._take_room(agent)
        by = {"schedule": str(schedule.pk)}
        run = submitting.prepare(caller=CLOCK, agent=agent, wish=wish, by=by, at=self.real_now)
        self.begun.append(run)
        self.running.add(schedule.pk)
        schedule.last_execution = self.now
        return run.pk

    def _take_room(self, agent: Agent) -> None:
        room = self._rooms[agent.pk]
        admission.check(agent, room, self._strain)
        self._rooms[agent.pk] = replace(room, waiting=room.waiting + 1)

    def keep(self) -> None:
        """Write the runs that were begun, and tell a worker."""
        if self.begun:
            submitting.keep(CLOCK, self.begun)
            # Whoever hears it takes all that wait.
            waking.wake()


def _unusable(agent: Agent) -> str:
    state = agent.identity.state
    now = "expired" if state == State.ACTIVE else State(state).label.lower()
    return f"{agent} cannot run: its identity {agent.identity.name} is {now}."
