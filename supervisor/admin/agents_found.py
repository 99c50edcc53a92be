"""What the palette finds of agents, schedules and runs, and the verbs on them."""

from collections.abc import Iterable

from django.http import HttpRequest

from common.console import badges, command_palette
from common.console.command_palette import Group, Hit
from common.console.pages import link
from common.ids import parse_uuid
from nhi.actors import Actor
from nhi.console.request_actor import actor_of
from supervisor.admin import agents_cells, found_by_name, schedules_found
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
    page = schedules_found.VERBS.get(first.lower(), "")
    agents, schedules = found_by_name.find(actor, rest.strip() if verb or page else term)
    verbs = Group("Run verbs", _verbs(actor, agents))
    found = Group("Agents that run here", [_hit(agent) for agent in agents])
    yield from (verbs, found) if verb else (found, verbs)
    yield from schedules_found.groups(actor, schedules, page)


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


command_palette.add_palette_providers(find)
