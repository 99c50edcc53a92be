"""Adding an agent that runs here, and changing one."""

from typing import Any

from django.contrib import messages
from django.urls import path

from common.console.pages import Crumb, link
from common.errors import InvalidInput, NotAllowed
from common.ids import parse_uuid
from nhi.console import row_by_name_fields
from nhi.console.form_page import FormPage
from nhi.models import Identity
from supervisor import agents
from supervisor.admin.agents_form import AddForm, AgentForm, initial
from supervisor.admin.agents_hub import OfAgent, follows

TAKES_OVER = (
    "Tasks that are sent to the identity go from then on to the first program or model that runs tasks as it and is "
    "on, unless somebody chose on its tab Tasks where they go."
)


class Form(FormPage[AgentForm]):
    template = "admin/supervisor/agents/form.html"

    def say_the_rest(self, form: AgentForm) -> None:
        try:
            agents.foresee(given=form.given, envs=form.variables, api_key=form.key, agent=form.agent)
        except InvalidInput as error:
            form.refuse(error)


class Add(Form):
    title = "Add program or model"

    def check(self) -> None:
        self.actor.require("supervisor.add_agent", "add agents that run here")
        if self.actor.only_reads:
            raise NotAllowed("You may not add agents.")

    def context(self) -> dict[str, Any]:
        return {
            "lead": f"{TAKES_OVER} {self._now()}".strip(),
            "crumb": Crumb("Agents", link("supervisor_agent_changelist")),
            "back": link("supervisor_agent_changelist"),
            "button": "Add it",
            "api": ("POST", "/api/nhi/supervisor/agents"),
        }

    def _now(self) -> str:
        """Of the identity whose page it was opened from."""
        known = parse_uuid(self.request.GET.get("identity", ""))
        found = Identity.objects.visible_to(self.actor).filter(pk=known).first() if known else None
        return f"Now: {follows(found)}" if found is not None and follows(found) else ""

    def fitting(self, data: Any = None) -> AgentForm:
        known = row_by_name_fields.initial_name("agent", self.actor, self.request.GET.get("identity", ""))
        return AddForm(data, initial={"identity": known})

    def save(self, form: AgentForm) -> str:
        made = agents.create(
            actor=self.actor, identity=form.cleaned_data["identity"], given=form.given, envs=form.variables,
            api_key=form.key,
        )  # fmt: skip
        messages.success(self.request, f"{made} was added. {follows(made.identity)}".strip())
        return link("supervisor_agent_hub", made.pk)


class Edit(OfAgent, Form):
    def check(self) -> None:
        super().check()
        if self.actor.only_reads:
            raise NotAllowed(f"You may not change {self.agent}.")
        self.actor.require("supervisor.change_agent", "change agents that run here")

    def context(self) -> dict[str, Any]:
        return {
            "title": f"Edit the agent {self.agent}",
            "lead": f"Runs that are under way go on as they began. {follows(self.agent.identity)}".strip(),
            "crumb": Crumb(str(self.agent), self.url("hub")),
            "back": self.url("hub"),
            "button": "Save",
            "api": ("PATCH", self.api()),
        }

    def fitting(self, data: Any = None) -> AgentForm:
        return AgentForm(data, initial=initial(self.agent), agent=self.agent)

    def save(self, form: AgentForm) -> str:
        changed = agents.change(
            actor=self.actor, agent=self.agent, envs=form.variables, api_key=form.new_key,
            **form.given,
        )  # fmt: skip
        messages.success(self.request, f"{changed} was changed. {follows(changed.identity)}".strip())
        return self.url("hub")


URLS = [
    path("add/", Add.as_view(), name="supervisor_agent_add"),
    path("<uuid:pk>/change/", Edit.as_view(), name="supervisor_agent_change"),
]
