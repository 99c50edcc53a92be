"""Cancelling a task, and what that means for its parts."""

from typing import Any

from django.contrib import messages
from django.urls import path

from a2a import cancelling
from a2a.admin import tasks_cells
from a2a.admin.tasks_hub import OfTask
from a2a.choices import TaskState
from common.admin.dialogs import Call, Effect, counted
from common.admin.forms import ConsoleForm, ReasonField
from common.errors import NotAllowed
from nhi.admin.base import ActingDialog


class CancelForm(ConsoleForm):
    reason = ReasonField("No longer needed", "It hangs", "Wrong input", "Unexpected behaviour")


class Cancel(OfTask, ActingDialog):
    form_class = CancelForm
    danger = True
    leave = "Keep it"

    def check(self) -> None:
        super().check()
        if not cancelling.may_cancel(self.actor, self.task):
            raise NotAllowed(f"You may not cancel the {self.task}.", details={"needs": cancelling.RIGHT})

    @property
    def button(self) -> str:  # type: ignore[override]  # the name is known once there is a task
        return f"Cancel {self.task}"

    def context(self) -> dict[str, Any]:
        state = TaskState(self.task.state).label.lower()
        return {"title": self.button, "impossible": "" if self.task.is_open else f"The {self.task} is {state} already."}

    def effects(self) -> list[Effect]:
        """Counted again on submit: parts that were sent meanwhile are more than was agreed to."""
        if not self.task.is_open:
            return []
        parts = cancelling.count_within(self.task)
        asked = tasks_cells.asked_by(self.task)
        return [
            Effect("task", 1, f"{asked} is told that it was cancelled. It stays so, whatever its worker does."),
            *self._of_its_worker(),
            counted("parts", parts, "Also cancels {} task that is a part of it.", "Also cancels {} tasks within it."),
        ]

    def _of_its_worker(self) -> list[Effect]:
        if self.task.execution_id is not None:
            return [Effect("run", 1, f"Its run is stopped, with every process of {self.task.agent_name} in it.")]
        if self.task.state != TaskState.WORKING or not self.task.claims:
            return []
        return [Effect("lease", 1, f"The worker of {self.task.agent_name} that has it is refused from then on.")]

    def by_api(self) -> Call:
        return Call(self.api("cancel"), {"reason": "…"})

    def act(self, form: ConsoleForm) -> str:
        done = cancelling.cancel(actor=self.actor, task=self.task, reason=form.cleaned_data["reason"])
        messages.success(self.request, f"The {done} is cancelled.")
        return self.url("hub")


URLS = [path("<uuid:pk>/cancel/", Cancel.as_view(), name="a2a_task_cancel")]
