"""Giving a task what its agent asked for: what waits for a person must have a place where they answer."""

from typing import Any

from django import forms
from django.contrib import messages
from django.urls import path

from a2a import parts, sending
from a2a.admin import tasks_cells
from a2a.admin.tasks_content import pieces
from a2a.admin.tasks_hub import OfTask
from a2a.choices import Role, TaskState
from common.console.confirmation_dialogs import Effect
from common.console.forms import ConsoleForm
from common.errors import NotAllowed
from nhi.console.base import ActorDialog
from supervisor.access import Caller

LONGEST = 20_000


class ReplyForm(ConsoleForm):
    text = forms.CharField(label="Your answer", max_length=LONGEST, widget=forms.Textarea(attrs={"rows": 5}))


class Reply(OfTask, ActorDialog):
    template = "admin/a2a/tasks/reply.html"
    form_class = ReplyForm
    leave = "Not now"

    def check(self) -> None:
        super().check()
        if not sending.may_say(self.actor, self.task):
            raise NotAllowed(f"You may not speak in the {self.task}: it is not yours.")

    @property
    def button(self) -> str:  # type: ignore[override]  # the name is known once there is a task
        return f"Reply to {self.task.agent_name}"

    def context(self) -> dict[str, Any]:
        asked = self.task.status_message
        return {
            "title": f"Reply in {self.task}",
            "impossible": "" if self._waits else f"The {self.task} waits for no answer: it is {self._state}.",
            "task": self.task,
            "asked": pieces(asked["parts"]) if asked else [],
        }

    @property
    def _waits(self) -> bool:
        return self.task.state in sending.WAITING

    @property
    def _state(self) -> str:
        return TaskState(self.task.state).label.lower()

    def effects(self) -> list[Effect]:
        """In whose name it is said, where that is not one's own."""
        source = self.task.source
        if not self._waits or source is None or source.pk == self.actor.id:
            return []
        asked = tasks_cells.asked_by(self.task)
        return [Effect("name", 1, f"{self.task.agent_name} hears it as said by {asked}; that you said it is on record")]

    def act(self, form: ConsoleForm) -> str:
        message = parts.message(Role.USER, [parts.text(form.cleaned_data["text"])])
        sending.say(caller=Caller(self.actor), task=self.task, message=message)
        messages.success(self.request, f"{self.task.agent_name} has your answer.")
        return self.url("hub")


URLS = [path("<uuid:pk>/reply/", Reply.as_view(), name="a2a_task_reply")]
