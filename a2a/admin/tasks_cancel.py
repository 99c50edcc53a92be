"""Cancelling a task, and what that means for its parts."""

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.urls import path

from a2a import cancelling
from a2a.admin import tasks_cells
from a2a.admin.tasks_hub import OfTask
from a2a.choices import TaskState
from a2a.models import Task
from common.console.confirmation_dialogs import ApiExample, Effect, counted
from common.console.forms import ConsoleForm, ReasonField
from common.errors import NotAllowed
from nhi.console.base import ActorDialog
from supervisor.models import Execution

#: Runs that a dialog names; of more it says how many.
MOST_NAMED = 5


class CancelForm(ConsoleForm):
    reason = ReasonField("No longer needed", "It hangs", "Wrong input", "Unexpected behaviour")


class Cancel(OfTask, ActorDialog):
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
        parts, asked = cancelling.within([self.task.pk]), tasks_cells.asked_by(self.task)
        return [
            Effect("task", 1, f"{asked} is told that it was cancelled. It stays so, whatever its worker does."),
            *self._of_its_worker(),
            counted(
                "parts", len(parts), "Also cancels {} task that is a part of it.", "Also cancels {} tasks within it."
            ),
            *self._of_runs(parts),
        ]

    def _of_its_worker(self) -> list[Effect]:
        if self.task.execution_id is not None or self.task.state != TaskState.WORKING or not self.task.claims:
            return []
        return [Effect("lease", 1, f"The worker of {self.task.agent_name} that has it is refused from then on.")]

    def _of_runs(self, parts: set[UUID]) -> list[Effect]:
        """Its own and those of its parts; by name, as far as the person sees runs."""
        its = Task.objects.filter(pk__in={self.task.pk, *parts}, execution_id__isnull=False)
        runs = Execution.objects.open().filter(pk__in=its.values("execution_id"))
        count = runs.count()
        if not count:
            return []
        seen = [str(run) for run in runs.visible_to(self.actor).order_by("created_at", "id")[:MOST_NAMED]]
        named = [*seen, *([f"{count - len(seen)} more"] if count > len(seen) and seen else [])]
        said = f"{'run' if count == 1 else 'runs'} {', '.join(named)}" if seen else _runs(count)
        return [Effect("runs", count, f"Stops {said}, with every process in {'it' if count == 1 else 'them'}.")]

    def by_api(self) -> ApiExample:
        return ApiExample(self.api("cancel"), {"reason": "…"})

    def act(self, form: ConsoleForm) -> str:
        done = cancelling.cancel(actor=self.actor, task=self.task, reason=form.cleaned_data["reason"])
        messages.success(self.request, f"The {done} is cancelled.")
        return self.url("hub")


def _runs(count: int) -> str:
    return f"{count} {'run' if count == 1 else 'runs'}"


URLS = [path("<uuid:pk>/cancel/", Cancel.as_view(), name="a2a_task_cancel")]
