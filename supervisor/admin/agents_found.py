"""What the palette finds of agents and runs, and the verbs on them."""

from collections.abc import Iterable

from django.db.models import Case, IntegerField, Value, When
from django.http import HttpRequest

from common.admin import badges, palette
from common.admin.pages import link
from common.admin.palette import PER_GROUP, Group, Hit
from common.ids import parse_uuid
from nhi.actors import Actor
from nhi.admin.acting import actor_of
from supervisor.admin import agents_cells
from supervisor.choices import Mode
from supervisor.models import Agent, Execution

#: Words that begin a verb.
RUN = ("run", "execute", "start")


def find(request: HttpRequest, term: str) -> Iterable[Group]:
    actor = actor_of(request)
    if known := parse_uuid(term.lower()):
        runs = Execution.objects.visible_to(actor).filter(pk=known)
        yield Group("Runs", [_run_hit(run) for run in runs])
        return
    first, _, rest = term.partition(" ")
    verb = first.lower() in RUN
    agents = _agents(actor, rest.strip() if verb else term)
    verbs = Group("Run verbs", _verbs(actor, agents))
    found = Group("Agents that run here", [_hit(agent) for agent in agents])
    yield from (verbs, found) if verb else (found, verbs)


def _agents(actor: Actor, term: str) -> list[Agent]:
    seen = Agent.objects.visible_to(actor).filter(name__icontains=term)
    begins = When(name__istartswith=term, then=Value(0))
    rank = Case(begins, default=Value(1), output_field=IntegerField())
    return list(seen.only("name", "enabled", "mode").order_by(rank, "name")[:PER_GROUP])


def _hit(agent: Agent) -> Hit:
    return Hit(
        agent.name, link("supervisor_agent_hub", agent.pk), "smart_toy",
        f"Runs here, {agents_cells.switch(agent).label.lower()}",
    )  # fmt: skip


def _run_hit(run: Execution) -> Hit:
    said = badges.find("supervisor.ExecutionState", run.outcome).label
    return Hit(f"Run {run}", link("supervisor_execution_hub", run.pk), "play_circle", said)


def _verbs(actor: Actor, agents: list[Agent]) -> list[Hit]:
    """Running it for who may run all of them: others find the button on its page."""
    if actor.only_reads or not actor.may("supervisor.run_agent"):
        return []
    able = [(agent, agents_cells.way_to_run(agent)) for agent in agents if agent.enabled]
    return [Hit(f"{_word(agent)} {agent.name}…", url, "play_arrow") for agent, url in able if url]


def _word(agent: Agent) -> str:
    return "Talk to" if agent.mode == Mode.INTERACTIVE else "Run"


palette.add(find)
