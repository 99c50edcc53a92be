"""Stopping a run, and what that means for it."""

from typing import Any

from django.contrib import messages
from django.urls import path

from common.console.confirmation_dialogs import ApiExample, Effect
from common.console.forms import ConsoleForm, ReasonField
from nhi.console.base import ActorDialog
from supervisor import cancelling
from supervisor.admin.executions_hub import OfExecution
from supervisor.choices import ExecutionState


class StopForm(ConsoleForm):
    reason = ReasonField("No longer needed", "It hangs", "Wrong input", "Unexpected behaviour")


class Stop(OfExecution, ActorDialog):
    form_class = StopForm
    danger = True
    leave = "Leave it"

    def check(self) -> None:
        super().check()
        cancelling.require(self.actor, self.run)

    @property
    def button(self) -> str:  # type: ignore[override]  # the name is known once there is a run
        return f"Stop {self.run}"

    def context(self) -> dict[str, Any]:
        return {"title": self.button, "impossible": self._impossible()}

    def _impossible(self) -> str:
        if self.run.status is not None:
            return f"{self.run} is {ExecutionState(self.run.outcome).label.lower()} already."
        if self.run.cancel_requested_at is not None:
            return f"{self.run} is being stopped already, as {self.run.cancelled_by_name} asked."
        return ""

    def effects(self) -> list[Effect]:
        if self.run.state == ExecutionState.QUEUED:
            return [Effect("waiting", 1, "It leaves the queue and is never started.")]
        grace = f"{cancelling.GRACE:g} s"
        said = f"Its processes are asked to end (TERM); what is left of them after {grace} is ended (KILL)."
        return [
            Effect("process", 1, said),
            Effect("token", 1, "The token that it was given is refused from then on."),
        ]

    def by_api(self) -> ApiExample:
        return ApiExample(self.api("cancel"), {"reason": "…"})

    def act(self, form: ConsoleForm) -> str:
        stopped = cancelling.cancel(actor=self.actor, execution=self.run, reason=form.cleaned_data["reason"])
        messages.success(self.request, self._said(stopped.status is not None))
        return self.url("hub")

    def _said(self, done: bool) -> str:
        return f"{self.run} has left the queue." if done else f"{self.run} was asked to end."


URLS = [path("<uuid:pk>/stop/", Stop.as_view(), name="supervisor_execution_stop")]
