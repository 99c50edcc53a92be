"""Adding an agent that runs here, and changing one."""

from typing import Any

from django.contrib import messages
from django.urls import path

from common.admin.pages import Crumb, link
from common.errors import Invalid, NotAllowed
from nhi.admin import names
from nhi.admin.form_page import FormPage
from supervisor import agents
from supervisor.admin.agents_form import AddForm, AgentForm, initial
from supervisor.admin.agents_hub import OfAgent


class Form(FormPage[AgentForm]):
    template = "admin/supervisor/agents/form.html"

    def say_the_rest(self, form: AgentForm) -> None:
        try:
            agents.foresee(given=form.given, envs=form.variables, api_key=form.key, agent=form.agent)
        except Invalid as error:
            form.refuse(error)


class Add(Form):
    title = "Add an agent that runs here"

    def check(self) -> None:
        self.actor.require("supervisor.add_agent", "add agents that run here")
        if self.actor.only_reads:
            raise NotAllowed("You may not add agents.")

    def context(self) -> dict[str, Any]:
        return {
            "crumb": Crumb("Agents", link("supervisor_agent_changelist")),
            "back": link("supervisor_agent_changelist"),
            "button": "Add agent",
            "api": ("POST", "/api/nhi/supervisor/agents"),
        }

    def fitting(self, data: Any = None) -> AgentForm:
        known = names.known("agent", self.actor, self.request.GET.get("identity", ""))
        return AddForm(data, initial={"identity": known})

    def save(self, form: AgentForm) -> str:
        made = agents.create(
            actor=self.actor, identity=form.cleaned_data["identity"], given=form.given, envs=form.variables,
            api_key=form.key,
        )  # fmt: skip
        messages.success(self.request, f"{made} was added.")
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
            "lead": "Runs that are under way go on as they began.",
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
        messages.success(self.request, f"{changed} was changed.")
        return self.url("hub")


URLS = [
    path("add/", Add.as_view(), name="supervisor_agent_add"),
    path("<uuid:pk>/change/", Edit.as_view(), name="supervisor_agent_change"),
]
