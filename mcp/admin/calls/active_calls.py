"""Calls under way, drawn as rows above the log: they are leases until they end."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.utils import timezone

from common.console.lists import ListQuery
from common.console.pages import link
from mcp.models import Call
from nhi.actors import Actor
from nhi.audit import invocations
from nhi.models import Identity

SHOWN = 20
#: What narrows the log by how a call ended, or to a time that is over: no call under way is among those.
ENDED = frozenset({"outcome", "slower", "since", "until"})


@dataclass(frozen=True)
class ActiveCallRow:
    """A lease with the names of a log row."""

    pk: UUID
    timestamp: datetime
    agent_id: UUID
    agent_name: str
    tool_name: str
    method: str
    request_id: UUID
    run_id: UUID
    duration: float
    status: str = "in_flight"
    reason: str = ""
    redaction_applied: bool = False
    #: The dialog that stops its agent, for who may: no verb ends one call of an agent and lets it go on.
    stop_url: str = ""

    def __str__(self) -> str:
        return f"{self.method} on {self.tool_name} by {self.agent_name}"


def visible(actor: Actor, listing: ListQuery) -> list[ActiveCallRow]:
    """Those that the filters leave, newest first."""
    if any(one.filter.name in ENDED for one in listing.narrowed):
        return []
    leases = Call.objects.order_by("-id")
    if not actor.may("nhi.view_invocationlog"):
        leases = leases.filter(agent_id__in=Identity.objects.managed_by(actor).values("pk"))
    return _stoppable(actor, list(_narrowed(leases, listing)[:SHOWN]))


def of_agent(actor: Actor, agent_id: UUID) -> list[ActiveCallRow]:
    return _stoppable(actor, list(Call.objects.filter(agent_id=agent_id).order_by("-id")[:SHOWN]))


def _stoppable(actor: Actor, leases: list[Call]) -> list[ActiveCallRow]:
    """With the way to stop those whose agents this person may stop."""
    agents = {lease.agent_id for lease in leases}
    if actor.only_reads or not agents:
        agents = set()
    elif not actor.may("nhi.move_identity"):
        agents = set(Identity.objects.managed_by(actor).filter(pk__in=agents).values_list("pk", flat=True))
    urls = {agent: link("nhi_identity_stop", agent) for agent in agents}
    return [_drawn(lease, urls.get(lease.agent_id, "")) for lease in leases]


def _narrowed(leases: Any, listing: ListQuery) -> Any:
    asked = {one.filter.name: one.value for one in listing.narrowed}
    if agent := asked.get("agent"):
        leases = leases.filter(row__agent_name=agent)
    if server := asked.get("server"):
        leases = leases.filter(row__tool_name=server)
    if tool := asked.get("tool"):
        leases = leases.filter(row__method=tool.rpartition("__")[2].rpartition(".")[2])
    return leases if not asked.keys() & {"find", "owner"} else leases.none()


def _drawn(lease: Call, stop_url: str) -> ActiveCallRow:
    row = invocations.from_json(lease.row)
    names = ("timestamp", "agent_id", "agent_name", "tool_name", "method", "request_id", "run_id")
    lasted = (timezone.now() - row["timestamp"]).total_seconds() * 1000
    return ActiveCallRow(
        pk=lease.pk, duration=max(0.0, lasted), stop_url=stop_url, **{name: row[name] for name in names}
    )
