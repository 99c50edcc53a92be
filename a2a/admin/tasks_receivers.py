"""Who is told of every event of a task: a part of its tab on deliveries, and a dialog that ends it."""

from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.urls import path

from a2a import callback_urls, calling_off, pushing
from a2a.admin import deliveries_cells
from a2a.admin.tasks_hub import OfTask
from a2a.models import Delivery, PushConfig, Task
from common.console.confirmation_dialogs import Effect, counted
from common.console.forms import ConsoleForm, ReasonField
from common.console.pages import Control, link
from common.errors import NotAllowed, NotFound
from nhi.actors import Actor
from nhi.console.base import ActorDialog


class WhyForm(ConsoleForm):
    reason = ReasonField("Its receiver was taken down", "Wrong URL", "Too many events")


class Remove(OfTask, ActorDialog):
    """Over A2A it is `DeleteTaskPushNotificationConfig`, for the caller alone."""

    form_class = WhyForm
    danger = True
    leave = "Keep it"
    lead = "What was delivered stays in the log. The task itself goes on."
    receiver: PushConfig

    def check(self) -> None:
        super().check()
        found = PushConfig.objects.visible_to(self.actor).filter(task=self.task, pk=self.kwargs["receiver"]).first()
        if found is None:
            raise NotFound
        if not calling_off.may_remove_receiver(self.actor, self.task):
            raise NotAllowed("You may not remove this receiver: the task is not yours.")
        self.receiver = found

    @property
    def button(self) -> str:  # type: ignore[override]  # the name is known once there is a receiver
        return f"Remove the receiver at {host(self.receiver)}"

    def context(self) -> dict[str, Any]:
        return {"title": self.button}

    def effects(self) -> list[Effect]:
        waiting = Delivery.objects.pending().filter(push_id=self.receiver.pk).count()
        return [
            Effect("later", 1, f"It is told of no later event of the {self.task}."),
            counted("waiting", waiting, "Calls off {} delivery that waits for it.", "Calls off {} that wait for it."),
        ]

    def back(self) -> str:
        return self.url("deliveries")

    def act(self, form: ConsoleForm) -> str:
        pushing.take_away(
            actor=self.actor, task=self.task, config_id=self.receiver.config_id, reason=form.cleaned_data["reason"]
        )
        messages.success(
            self.request, f"The receiver at {host(self.receiver)} is told nothing more of the {self.task}."
        )
        return self.back()


@dataclass(frozen=True)
class Line:
    receiver: PushConfig
    remove: Control | None


def lines(actor: Actor, task: Task) -> list[Line]:
    """Those that the person may see, and how to remove each for who may."""
    rows = PushConfig.objects.visible_to(actor).filter(task=task)
    may = calling_off.may_remove_receiver(actor, task)
    return [Line(row, _removal(row, of_many=len(rows) > 1) if may else None) for row in rows]


def host(receiver: PushConfig) -> str:
    return deliveries_cells.short(callback_urls.host(receiver.url))


def _removal(row: PushConfig, *, of_many: bool) -> Control:
    label = f"Remove {row.config_id}" if of_many else "Remove"
    return Control(label, link("a2a_task_receiver_remove", row.task_id, row.pk), danger=True)


URLS = [path("<uuid:pk>/receivers/<uuid:receiver>/remove/", Remove.as_view(), name="a2a_task_receiver_remove")]
