"""Which of the runs that wait may start now, counted over all workers."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import cache
from typing import Any
from uuid import UUID

from django.db import connection
from django.db.models import Count, F, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Coalesce

from common.fastsql.compiled_queries import PreparedQuery
from nhi.models import Identity
from supervisor import lifecycle
from supervisor.choices import ExecutionState
from supervisor.models import Agent, Execution


def startable(room: int) -> list[Execution]:
    """Up to `room` runs that may start now, the longest waiting first."""
    # Nearly always nobody waits, and who does has an index of their own: to know who may start costs ten times as much.
    if room < 1 or _WAITS.fetch_first() is None:
        return []
    return _startable(room).fetch_all()


def take(runs: Sequence[Execution], *, runner_id: UUID, at: datetime) -> list[Execution]:
    """Give this runner those of them that still may start, in a transaction of the caller's, who then starts them.

    The agents' rows are locked: between them, two workers give no slot away twice. Should they ever, the table refuses.
    Whoever asks for another run of these agents waits for the end of that transaction.
    """
    allotted = []
    for agent in _locked(sorted({row.agent_id for row in runs})):
        allotted += _allotted(agent, [row for row in runs if row.agent_id == agent.pk])
    facts = {"runner_id": runner_id, "start_time": at}
    plans = [(row, [(ExecutionState.STARTING, f"Slot {slot}.")], {**facts, "slot": slot}) for row, slot in allotted]
    # Whatever was called off meanwhile is left.
    return lifecycle.walk_those_left(plans, at=at)


_WAITS = PreparedQuery(lambda: Execution.objects.queued().order_by().values_list("pk")[:1])
_HELD = PreparedQuery(
    lambda agent: Execution.objects.filter(agent=agent, slot__isnull=False).order_by().values_list("slot"), agent=UUID
)


@cache
def _startable(room: int) -> PreparedQuery:
    return PreparedQuery(lambda: _may_start()[:room])


def _usable() -> QuerySet[Identity, Any]:
    return Identity.objects.usable().values("pk")


def _may_start() -> QuerySet[Execution]:
    held_now = Execution.objects.filter(agent=OuterRef("agent"), slot__isnull=False).order_by()
    count = Subquery(held_now.values("agent").annotate(n=Count("pk")).values("n"))
    rows = Execution.objects.queued().filter(
        agent__enabled=True, agent__identity__in=_usable(), cancel_requested_at=None
    )
    place = Q(agent__max_concurrent_executions=None) | Q(held__lt=F("agent__max_concurrent_executions"))
    return rows.annotate(held=Coalesce(count, 0)).filter(place).order_by("created_at", "id")


def _locked(agents: Sequence[UUID]) -> Iterator[Agent]:
    """In one order for all workers. What another holds just now is its to start."""
    for agent in agents:
        yield from _FREE.fetch_all(agent=agent)


def _free(agent: UUID) -> QuerySet[Agent]:
    """Its key is left to others: who writes a row that names it would wait for us, and we for them."""
    skip = connection.features.has_select_for_update_skip_locked
    rows = Agent.objects.select_for_update(of=("self",), skip_locked=skip, no_key=True).select_related("identity")
    return rows.filter(pk=agent, enabled=True, identity__in=_usable()).order_by()


_FREE = PreparedQuery(_free, agent=UUID)


def _allotted(agent: Agent, waiting: Sequence[Execution]) -> list[tuple[Execution, int]]:
    most, in_use, taken = agent.max_concurrent_executions, {slot for (slot,) in _HELD.fetch_all(agent=agent.pk)}, []
    for row in waiting:
        slot = next(number for number in range(1, len(in_use) + 2) if number not in in_use)
        # Both: a limit that was lowered meanwhile leaves higher slots in use.
        if most is None or (slot <= most and len(in_use) < most):
            in_use.add(slot)
            row.agent = agent
            taken.append((row, slot))
    return taken
