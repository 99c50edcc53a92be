"""Adding an agent that runs here, and changing one."""

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import path

from common import statuses
from common.admin.pages import Crumb, link
from common.errors import Conflict, Invalid, NotAllowed
from nhi.admin import names
from nhi.admin.base import ActingPage
from supervisor import agents
from supervisor.admin.agents_form import AddForm, AgentForm, initial
from supervisor.admin.agents_hub import OfAgent
from supervisor.models import Agent


class Form(ActingPage):
    template = "admin/supervisor/agents/form.html"

    def fitting(self, data: Any = None) -> AgentForm:
        raise NotImplementedError

    def save(self, form: Any) -> Agent:
        """Call the verb."""
        raise NotImplementedError

    def get(self, request: HttpRequest, **_kwargs: Any) -> HttpResponse:
        return self.page(form=self.fitting())

    def post(self, request: HttpRequest, **_kwargs: Any) -> HttpResponse:
        form = self.fitting(request.POST)
        if not form.is_valid():
            self.say_the_rest(form)
            return self.page(form=form, status=422)
        try:
            saved = self.save(form)
        except (Invalid, Conflict) as error:
            form.refuse(error)
            return self.page(form=form, status=statuses.of(error))
        return HttpResponseRedirect(link("supervisor_agent_hub", saved.pk))

    def say_the_rest(self, form: AgentForm) -> None:
        """What the verb would find in the fields that could be read: all that is wrong is said at once."""
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
        form = AddForm(data, initial={"identity": known})
        names.for_actor(form, self.actor)
        return form

    def save(self, form: Any) -> Agent:
        made = agents.create(
            actor=self.actor, identity=form.cleaned_data["identity"], given=form.given, envs=form.variables,
            api_key=form.key,
        )  # fmt: skip
        messages.success(self.request, f"{made} was added.")
        return made


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

    def save(self, form: Any) -> Agent:
        changed = agents.change(
            actor=self.actor, agent=self.agent, envs=form.variables, api_key=form.new_key,
            **form.given,
        )  # fmt: skip
        messages.success(self.request, f"{changed} was changed.")
        return changed


URLS = [
    path("add/", Add.as_view(), name="supervisor_agent_add"),
    path("<uuid:pk>/change/", Edit.as_view(), name="supervisor_agent_change"),
]
