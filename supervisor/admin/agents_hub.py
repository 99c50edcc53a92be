"""One agent: what is it, what may it use, does it work?"""

from collections.abc import Callable
from typing import Any

from common.console.confirmation_dialogs import ApiExample
from common.console.pages import Control, Crumb, Tab, link
from common.errors import NotFound
from common.process import executable_allowlist
from nhi.console.base import ActorMixin, ActorPage
from nhi.models import Identity
from supervisor import access, command_lines
from supervisor.admin import agents_cells
from supervisor.choices import Kind, Mode
from supervisor.models import Agent

TABS = (("hub", "Overview"), ("runs", "Runs"), ("changes", "Changes"))


#: What a higher app says follows for an identity from what runs as it, in a sentence; empty for nothing.
_follows: list[Callable[[Identity], str]] = []


def add_consequence(read: Callable[[Identity], str]) -> None:
    _follows.append(read)


#: The same of one that is about to be switched off or on: what changes then.
_foresees: list[Callable[[Agent, bool], str]] = []


def add_foresight(read: Callable[[Agent, bool], str]) -> None:
    _foresees.append(read)


def foreseen(agent: Agent, *, on: bool) -> str:
    return " ".join(said for read in _foresees if (said := read(agent, on)))


def follows(identity: Identity) -> str:
    return " ".join(said for read in _follows if (said := read(identity)))


class OfAgent(ActorMixin):
    """A page or dialog about one agent that the person may see."""

    kwargs: dict[str, Any]
    agent: Agent

    def check(self) -> None:
        super().check()
        seen = Agent.objects.visible_to(self.actor).select_related("identity__owner")
        found = seen.filter(pk=self.kwargs["pk"]).first()
        if found is None:
            raise NotFound
        self.agent = found

    def may(self, right: str) -> bool:
        """Whether a control for this is drawn."""
        return self.actor.may(right) and not self.actor.only_reads

    def url(self, page: str) -> str:
        return link(f"supervisor_agent_{page}", self.agent.pk)

    def api(self, verb: str = "") -> str:
        path = f"/api/nhi/supervisor/agents/{self.agent.pk}"
        return f"{path}/{verb}" if verb else path

    def back(self) -> str:
        return self.url("hub")

    def starting(self) -> ApiExample:
        """What starts it over REST: a run, with a value for each parameter that it needs; or a session."""
        if self.agent.mode == Mode.INTERACTIVE:
            return ApiExample("/api/nhi/supervisor/sessions", {"agent_id": str(self.agent.pk)})
        needed = command_lines.wanted(self.agent.cli_args) if self.agent.kind == Kind.PROCESS else []
        parameters = {"parameters": dict.fromkeys(needed, "…")} if needed else {}
        return ApiExample(self.api("execute"), {"input": "…", **parameters})

    @property
    def unable(self) -> str:
        """Why nothing of it is started now."""
        return agents_cells.unable(self.agent)

    @property
    def trouble(self) -> str:
        """What its runs will fail of: what was allowed when it was added need not be so any more."""
        if self.agent.kind != Kind.PROCESS:
            return ""
        return executable_allowlist.find_command_problem(self.agent.executable_path, self.agent.cli_args)


class Hub(OfAgent, ActorPage):
    """The frame of every tab."""

    tab = "hub"

    def context(self) -> dict[str, Any]:
        agent = self.agent
        return {
            "title": f"{agent}: {dict(TABS)[self.tab]}, agent" if self.tab != "hub" else f"{agent}, agent",
            "agent": agent,
            "trouble": self.trouble,
            "switch": agents_cells.switch(agent),
            "kind": Kind(agent.kind).label,
            "mode": Mode(agent.mode).label,
            "crumb": Crumb("Agents", link("supervisor_agent_changelist")),
            "controls": self._controls(),
            "more": self._more(),
            "tabs": [Tab(label, self.url(name), self._count(name), name == self.tab) for name, label in TABS],
            "api": self.api(),
        }

    def _count(self, tab: str) -> int | None:
        return self.agent.runs if tab == "runs" else None

    def _controls(self) -> list[Control]:
        url = agents_cells.way_to_run(self.agent)
        if not url or not access.may_run(self.actor, self.agent):
            return []
        if self.agent.mode == Mode.INTERACTIVE:
            return [Control("Open a session", url, "forum", blocked=self.unable)]
        return [Control("Run", url, "play_arrow", dialog=False, blocked=self.unable)]

    def _more(self) -> list[Control]:
        found = []
        if self.may("supervisor.change_agent"):
            found.append(Control("Edit", self.url("change"), "edit", dialog=False))
        if self.may("supervisor.operate_agent"):
            on = self.agent.enabled
            words, page, icon = ("Switch off", "off", "power_settings_new") if on else ("Switch on", "on", "power")
            found.append(Control(words, self.url(page), icon, danger=on))
        return found
