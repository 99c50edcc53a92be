"""Switching an agent off and on."""

from typing import Any

from django.contrib import messages
from django.urls import path

from common.console.confirmation_dialogs import ApiExample, Effect, counted
from common.console.forms import ConsoleForm, ReasonField
from nhi.console.base import ActorDialog
from supervisor import agents
from supervisor.admin.agents_hub import OfAgent, follows, foreseen
from supervisor.models import Execution, Schedule


class OffForm(ConsoleForm):
    reason = ReasonField("Unexpected behaviour", "Maintenance", "No longer needed", "Owner asked")


class OnForm(ConsoleForm):
    reason = ReasonField("Problem solved", "Ready for use", "Owner asked")


class Switch(OfAgent, ActorDialog):
    on = True
    verb = ""
    says = ""

    def check(self) -> None:
        super().check()
        self.actor.require("supervisor.operate_agent", "switch agents off and on")

    @property
    def button(self) -> str:  # type: ignore[override]  # the name is known once there is an agent
        return f"Switch {self.agent} {self.verb}"

    @property
    def lead(self) -> str:  # type: ignore[override]  # what follows is known once there is an agent
        return f"{self.says} {foreseen(self.agent, on=self.on)}".strip()

    def context(self) -> dict[str, Any]:
        impossible = f"{self.agent} is {self.verb} already." if self.agent.enabled == self.on else ""
        return {"title": self.button, "impossible": impossible}

    def by_api(self) -> ApiExample:
        return ApiExample(self.api("enable" if self.on else "disable"), {"reason": "…"})

    def act(self, form: ConsoleForm) -> str:
        agents.switch(actor=self.actor, agent=self.agent, on=self.on, reason=form.cleaned_data["reason"])
        said = follows(self.agent.identity)
        messages.success(self.request, f"{self.agent} is switched {self.verb}. {said}".strip())
        return self.url("hub")


class Off(Switch):
    on, verb, danger, form_class = False, "off", True, OffForm
    says = "Nothing of it is started from then on: what is asked for is refused."

    def effects(self) -> list[Effect]:
        open_ones = Execution.objects.filter(agent=self.agent, status=None)
        waiting, running = open_ones.filter(slot=None).count(), open_ones.filter(slot__isnull=False).count()
        due = Schedule.objects.kept().filter(agent=self.agent, enabled=True, paused_at=None).count()
        return [
            counted("running", running, "{} run that is under way goes on", "{} runs that are under way go on"),
            counted("waiting", waiting, "{} run stays in the queue and is not started",
                    "{} runs stay in the queue and are not started"),
            counted("schedules", due, "{} schedule starts nothing", "{} schedules start nothing"),
        ]  # fmt: skip


class On(Switch):
    on, verb, form_class = True, "on", OnForm
    says = "What waits in its queue is started at once, as far as there are slots."


URLS = [
    path("<uuid:pk>/off/", Off.as_view(), name="supervisor_agent_off"),
    path("<uuid:pk>/on/", On.as_view(), name="supervisor_agent_on"),
]
