"""Dialogs of one schedule: run it now, pause it, resume it, remove it."""

from typing import Any

from django.contrib import messages
from django.urls import path

from common.console.confirmation_dialogs import ApiExample, Effect, counted
from common.console.forms import ConsoleForm, ReasonField
from common.console.pages import link
from common.errors import Conflict
from nhi.console.base import ActorDialog
from supervisor import admission, schedules
from supervisor.access import Caller
from supervisor.admin import agents_cells
from supervisor.admin.schedules_hub import OfSchedule
from supervisor.models import Execution, ScheduleFire
from supervisor.schedules import pausing
from supervisor.schedules import rights as schedule_rights


class PauseForm(ConsoleForm):
    reason = ReasonField("Maintenance", "Unexpected behaviour", "Owner asked")


class ResumeForm(ConsoleForm):
    reason = ReasonField("Problem solved", "Maintenance is over", "Owner asked")


class RemoveForm(ConsoleForm):
    reason = ReasonField("Not needed any more", "Replaced by another", "Owner asked")


class Verb(OfSchedule, ActorDialog):
    verb = ""
    #: The last part of its address over REST.
    rest = ""

    def check(self) -> None:
        super().check()
        schedule_rights.require_operate(self.actor, self.schedule)

    @property
    def button(self) -> str:  # type: ignore[override]  # the name is known once there is a schedule
        return f"{self.verb} {self.schedule}"

    def context(self) -> dict[str, Any]:
        impossible = f"{self.schedule} was removed." if self.schedule.removed_at else self.impossible()
        return {"title": self.button, "impossible": impossible}

    def impossible(self) -> str:
        """Why the state forbids it now."""
        return ""

    def by_api(self) -> ApiExample:
        return ApiExample(self.api(self.rest), {"reason": "…"})

    def owed(self) -> int:
        return ScheduleFire.objects.filter(schedule=self.schedule, owed=True).count()


class RunNow(Verb):
    verb, rest = "Run", "run"
    lead = "A run out of turn, with the schedule's input. The next due time stays as it is."

    def impossible(self) -> str:
        return agents_cells.unable(self.schedule.agent, f"Its agent {self.schedule.agent}", "Its agent's")

    def by_api(self) -> ApiExample:
        return ApiExample(self.api("run"))

    def effects(self) -> list[Effect]:
        under_way = Execution.objects.open().filter(schedule_id=self.schedule.pk).count()
        one, many = "{} run of it is not done yet: this one comes beside it", "{} runs of it are not done yet"
        return [counted("running", under_way, one, many)]

    def act(self, form: ConsoleForm) -> str:
        try:
            asked = schedules.run_now(caller=Caller(self.actor), schedule=self.schedule)
        except admission.NoRoom as error:
            raise Conflict(error.said) from error
        messages.success(self.request, f"{asked.execution} was asked for.")
        return link("supervisor_execution_hub", asked.execution.pk)


class Pause(Verb):
    verb, rest, form_class = "Pause", "pause", PauseForm
    lead = "It fires no more until somebody resumes it. Due times that pass meanwhile are not made up for."

    def impossible(self) -> str:
        return f"{self.schedule} is paused already." if self.schedule.paused_at else ""

    def effects(self) -> list[Effect]:
        under_way = Execution.objects.open().filter(schedule_id=self.schedule.pk).count()
        return [
            counted("running", under_way, "{} run that was asked for goes on", "{} runs that were asked for go on"),
            counted("owed", self.owed(), "{} run that waits for it is given up", "{} runs that wait are given up"),
        ]

    def act(self, form: ConsoleForm) -> str:
        pausing.pause(actor=self.actor, schedule=self.schedule, reason=form.cleaned_data["reason"])
        messages.success(self.request, f"{self.schedule} is paused.")
        return self.url("hub")


class Resume(Verb):
    verb, rest, form_class = "Resume", "resume", ResumeForm
    lead = "It fires from its next due time on. What passed while it was paused is not made up for."

    def impossible(self) -> str:
        return "" if self.schedule.paused_at else f"{self.schedule} is not paused."

    def act(self, form: ConsoleForm) -> str:
        pausing.resume(actor=self.actor, schedule=self.schedule, reason=form.cleaned_data["reason"])
        messages.success(self.request, f"{self.schedule} fires again.")
        return self.url("hub")


class Remove(Verb):
    verb, form_class, danger = "Remove", RemoveForm, True
    lead = "It fires no more and its name is free. Its runs, and what became of its due times, stay on record."

    def check(self) -> None:
        OfSchedule.check(self)
        schedule_rights.require_change(self.actor, self.schedule)

    def by_api(self) -> ApiExample:
        return ApiExample(f"{self.api()}?reason=…", method="DELETE")

    def effects(self) -> list[Effect]:
        return [counted("owed", self.owed(), "{} run that waits is given up", "{} runs that wait are given up")]

    def act(self, form: ConsoleForm) -> str:
        schedules.remove(actor=self.actor, schedule=self.schedule, reason=form.cleaned_data["reason"])
        messages.success(self.request, f"{self.schedule} is removed.")
        return link("supervisor_schedule_changelist")


URLS = [
    path("<uuid:pk>/run/", RunNow.as_view(), name="supervisor_schedule_run"),
    path("<uuid:pk>/pause/", Pause.as_view(), name="supervisor_schedule_pause"),
    path("<uuid:pk>/resume/", Resume.as_view(), name="supervisor_schedule_resume"),
    path("<uuid:pk>/remove/", Remove.as_view(), name="supervisor_schedule_remove"),
]
