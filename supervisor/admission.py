"""Whether there is room for another run: in its agent's queue, and on the hosts that run agents."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db.models import Count, Q, QuerySet
from django.db.models.functions import Now

from common.errors import GatehouseError
from common.fastsql.compiled_queries import PreparedQuery
from supervisor.choices import ExecutionState
from supervisor.models import Agent, Execution, Runner
from supervisor.models.executions import UNDER_WAY

#: A runner that was not heard of for so long tells nothing of its host.
HEARD_WITHIN = timedelta(seconds=20)
RETRY_SECONDS = 30
#: Of an agent that has no limit of its own: what no worker has a place for.
MOST_WAITING = 1000
WAITS, HOLDS = Q(state=ExecutionState.QUEUED), Q(slot__isnull=False)


class NoRoom(GatehouseError):
    """Refused for now alone."""

    code = "overloaded"

    @property
    def said(self) -> str:
        """With when it may be asked for again, for people."""
        return f"{self.message} Try again in {self.details['retry_after']} s."


class QueueFull(NoRoom):
    """As many runs of the agent wait as may."""

    code = "queue_full"


class Overloaded(NoRoom):
    """No host has the memory, the disk or the processor for another run."""


@dataclass(frozen=True)
class Room:
    """What would become of a run that is asked for now."""

    waiting: int
    running: int


@dataclass(frozen=True)
class Load:
    """How busy an agent is now."""

    running: int
    queued: int
    #: Places taken, those of runs that are being cleared away among them.
    used: int


def load(agent: Agent) -> Load:
    held = list(Execution.objects.filter(agent=agent, slot__isnull=False).values_list("state", flat=True))
    queued = Execution.objects.queued().filter(agent=agent).count()
    return Load(running=sum(state in UNDER_WAY for state in held), queued=queued, used=len(held))


def require(agent: Agent) -> Room:
    """Refuse another run while there is no room for it. The caller holds the agent's row."""
    _, waiting, running = _ROOM.fetch_first(agent=agent.pk) or (agent.pk, 0, 0)
    room = Room(waiting, running)
    check(agent, room, overload())
    return room


def rooms(agents: Iterable[Agent]) -> dict[UUID, Room]:
    """Of several agents at once."""
    found = {agent.pk: Room(0, 0) for agent in agents}
    for agent_id, waiting, running in _counted(Q(agent__in=found)):
        found[agent_id] = Room(waiting, running)
    return found


def _counted(of: Q) -> "QuerySet[Execution, Any]":
    """By agent: how many wait, and how many have a slot."""
    rows = Execution.objects.filter(of).filter(WAITS | HOLDS).order_by().values_list("agent_id")
    return rows.annotate(waiting=Count("pk", filter=WAITS), running=Count("pk", filter=HOLDS))


_ROOM = PreparedQuery(lambda agent: _counted(Q(agent=agent)), agent=UUID)
_HEARD = PreparedQuery(lambda: Runner.objects.filter(seen_at__gt=Now() - HEARD_WITHIN))


def may_wait(agent: Agent, running: int) -> int:
    """How many at most: one for each free slot, which a worker takes in a moment, and its queue behind those."""
    most = agent.max_concurrent_executions
    places = MOST_WAITING if most is None else most - running
    return max(0, places) + agent.queue_depth


def check(agent: Agent, room: Room, strain: str) -> None:
    """Refuse where there is no such room, or the hosts are under this strain."""
    if room.waiting >= may_wait(agent, room.running):
        raise QueueFull(
            _full(agent, room.waiting),
            details={"waiting": room.waiting, "retry_after": RETRY_SECONDS},
        )
    if strain:
        raise Overloaded(f"No new run is taken just now: {strain}", details={"retry_after": RETRY_SECONDS})


def _full(agent: Agent, waiting: int) -> str:
    if not waiting:
        return f"All slots of {agent} are taken, and it has no queue."
    return f"The queue of {agent} is full: {waiting} {'run waits' if waiting == 1 else 'runs wait'} already."


def overload() -> str:
    """Why no host takes another run, as a sentence; empty while one does, or while none was heard of."""
    heard = _HEARD.fetch_all()
    said = [_strain(runner) for runner in heard]
    return said[0] if said and all(said) else ""


def _strain(runner: Runner) -> str:
    if runner.memory_percent > settings.RUN_MAX_MEMORY_PERCENT:
        return f"{runner.memory_percent:.0f} % of the memory of {runner.host} is in use."
    if runner.disk_free_mb < settings.RUN_MIN_DISK_MB:
        return f"{runner.host} has {runner.disk_free_mb:.0f} MB of disk left."
    if runner.load_per_cpu > settings.RUN_MAX_LOAD:
        return f"The load of {runner.host} is {runner.load_per_cpu:.1f} for each processor."
    return ""
