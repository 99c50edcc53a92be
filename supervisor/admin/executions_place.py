"""Where a run is carried: by which worker, in which of its agent's slots, and how many wait behind it."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import Count, QuerySet, Subquery
from django.utils.dateparse import parse_datetime

from common.console import badges
from common.console.badges import Badge
from supervisor.admin import queue
from supervisor.choices import AccessType
from supervisor.models import Execution, Runner


@dataclass(frozen=True)
class Worker:
    name: str
    #: Where it was not heard of in time.
    badge: Badge | None


@dataclass(frozen=True)
class Ending:
    """The two moments of a stop: its processes were asked to end, and what was left of them was ended."""

    term: datetime | None
    kill: datetime | None


def facts(run: Execution) -> dict[str, Any]:
    """One question for one that is under way, none for others."""
    ending = Ending(*(_moment(run, name) for name in ("term_at", "kill_at")))
    known = {"access": AccessType(run.agent.access_type).label, "ending": ending}
    if run.slot is None:
        return known
    if run.runner_id is None:
        return {**known, "slot": _slot(run, _waiting(run).count())}
    found = _runner(run.runner_id, _waiting(run))
    waiting = found.waiting or 0 if found else _waiting(run).count()
    return {**known, "slot": _slot(run, waiting), "worker": _worker(found)}


def _runner(pk: UUID, waiting: QuerySet[Execution]) -> Any:
    """With how many runs wait; none where it was given up, which leaves no row."""
    counted = waiting.order_by().values("agent").annotate(runs=Count("pk")).values("runs")
    return Runner.objects.filter(pk=pk).annotate(waiting=Subquery(counted)).first()


def _waiting(run: Execution) -> QuerySet[Execution]:
    return Execution.objects.queued().filter(agent_id=run.agent_id)


def _worker(found: Runner | None) -> Worker:
    if found is None:
        return Worker("one that is gone", badges.find("process", "lost"))
    heard = queue.heard(found)
    return Worker(f"{found.host}, process {found.pid}", heard if heard != badges.find("process", "up") else None)


def _slot(run: Execution, waiting: int) -> str:
    """`slot 1 of 1, 2 wait`."""
    most = run.agent.max_concurrent_executions
    return f"slot {run.slot}{f' of {most}' if most else ''}, {waiting or 'none'} {'waits' if waiting == 1 else 'wait'}"


def _moment(run: Execution, name: str) -> datetime | None:
    return parse_datetime(run.context.get(name, ""))
