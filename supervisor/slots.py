"""Which of the runs that wait may start now, counted over all workers."""

from collections.abc import Iterable
from functools import cache
from uuid import UUID

from django.db import connection, transaction
from django.db.models import Count, F, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Coalesce

from common import clock
from common.prepared import Prepared
from nhi.models import Identity
from supervisor import lifecycle
from supervisor.choices import ExecutionState
from supervisor.models import Agent, Execution


def claim(*, runner_id: UUID, room: int) -> list[Execution]:
    """Take up to `room` runs for this runner, the longest waiting first; committed before anything is started.

    The agents' rows are locked: between them, two workers give no slot away twice. Should they ever, the table refuses.
    """
    # Nearly always nobody waits, and who does has an index of their own; to know who may start costs ten times as much.
    if room < 1 or _WAITS.first() is None:
        return []
    with transaction.atomic():
        candidates = _startable(room).all()
        if not candidates:
            return []
        agents = _locked({row.agent_id for row in candidates})
        taken = _allotted([row for row in candidates if row.agent_id in agents], agents)
        now = clock.database_now()
        facts = {"runner_id": runner_id, "start_time": now}
        plans = [(row, [(ExecutionState.STARTING, f"Slot {slot}.")], {**facts, "slot": slot}) for row, slot in taken]
        lifecycle.walk_each(plans, at=now)
        for row, _ in taken:
            row.agent = agents[row.agent_id]
    return [row for row, _ in taken]


def held(agents: Iterable[UUID]) -> dict[UUID, set[int]]:
    """The slots in use, by agent."""
    found: dict[UUID, set[int]] = {agent: set() for agent in agents}
    rows = Execution.objects.filter(agent__in=found, slot__isnull=False).values_list("agent_id", "slot")
    for agent, slot in rows:
        found[agent].add(slot or 0)
    return found


_WAITS = Prepared(lambda: Execution.objects.queued().order_by().values_list("pk")[:1])


@cache
def _startable(room: int) -> Prepared:
    return Prepared(lambda: _may_start()[:room])


def _may_start() -> QuerySet[Execution]:
    usable = Identity.objects.usable().values("pk")
    held_now = Execution.objects.filter(agent=OuterRef("agent"), slot__isnull=False).order_by()
    count = Subquery(held_now.values("agent").annotate(n=Count("pk")).values("n"))
    rows = Execution.objects.queued().filter(agent__enabled=True, agent__identity__in=usable, cancel_requested_at=None)
    place = Q(agent__max_concurrent_executions=None) | Q(held__lt=F("agent__max_concurrent_executions"))
    return rows.annotate(held=Coalesce(count, 0)).filter(place).order_by("created_at", "id")


def _locked(agents: set[UUID]) -> dict[UUID, Agent]:
    """What another worker holds just now is its to start."""
    skip = connection.features.has_select_for_update_skip_locked
    rows = Agent.objects.select_for_update(of=("self",), skip_locked=skip).select_related("identity")
    return {agent.pk: agent for agent in rows.filter(pk__in=agents, enabled=True).order_by("pk")}


def _allotted(waiting: list[Execution], agents: dict[UUID, Agent]) -> list[tuple[Execution, int]]:
    in_use = held(agents)
    still = set(Execution.objects.queued().filter(pk__in=[row.pk for row in waiting]).values_list("pk", flat=True))
    taken = []
    for row in waiting:
        most = agents[row.agent_id].max_concurrent_executions
        slot = next(number for number in range(1, len(in_use[row.agent_id]) + 2) if number not in in_use[row.agent_id])
        # Both: a limit that was lowered meanwhile leaves higher slots in use.
        if row.pk in still and (most is None or (slot <= most and len(in_use[row.agent_id]) < most)):
            in_use[row.agent_id].add(slot)
            taken.append((row, slot))
    return taken
