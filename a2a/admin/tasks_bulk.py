"""Cancelling several tasks: what was ticked, or all that the list's filters leave."""

from collections import Counter
from typing import Any

from django.contrib import messages
from django.db.models import Q, QuerySet
from django.http import HttpResponse
from django.urls import path
from django.utils.functional import cached_property

from a2a import cancelling
from a2a.admin import tasks_cells
from a2a.admin.tasks_cancel import CancelForm
from a2a.admin.tasks_filters import FILTERS, SEARCH, needs
from a2a.choices import TaskState
from a2a.models import Task
from common.admin import several
from common.admin.dialogs import Effect, counted
from common.admin.forms import ConsoleForm
from common.admin.pages import link, render
from common.errors import NotAllowed
from nhi.access import attempt
from nhi.actors import Actor
from nhi.admin.base import ActingDialog
from nhi.models import Identity

MOST = several.MOST


def cancellable(actor: Actor) -> QuerySet[Any]:
    """What `cancelling.may_cancel` allows, of many in one query."""
    rows = Task.objects.visible_to(actor)
    if actor.only_reads:
        return rows.none()
    if actor.may(cancelling.RIGHT):
        return rows
    managed = Identity.objects.managed_by(actor).values("pk")
    own = Q(source_id=actor.id) | Q(source_id=None, created_by_id=actor.id)
    return rows.filter(own | Q(source_id__in=managed) | Q(agent_id__in=managed))


def may_any(actor: Actor) -> bool:
    """Whether there may be some that this person may cancel."""
    return not actor.only_reads and (actor.may(cancelling.RIGHT) or cancellable(actor).exists())


class Cancel(ActingDialog):
    template = "admin/a2a/bulk.html"
    form_class = CancelForm
    danger = True
    leave = "Keep them"

    def check(self) -> None:
        if self.actor.only_reads:
            raise NotAllowed("You may not cancel tasks.")

    @cached_property
    def chosen(self) -> list[Task]:
        """The newest first, so that a part is ended before the whole would end it."""
        rows = tasks_cells.for_lines(cancellable(self.actor)).alias(needs_me=needs(self.actor))
        found = several.picked(self.request, rows, FILTERS, SEARCH)
        if several.takes_all(self.request):
            # Of all that the filters leave, those that ended are not even named.
            found = found.filter(completed_at=None)
        return list(found.order_by("-created_at", "-id")[: MOST + 1])

    @cached_property
    def fitting(self) -> list[Task]:
        return [task for task in self.chosen[:MOST] if task.is_open]

    @cached_property
    def parts(self) -> int:
        """Open tasks that end with these and were not picked themselves."""
        known = {task.pk for task in self.fitting}
        level, found = list(known), 0
        while level:
            below = Task.objects.open().filter(parent__in=level).values_list("pk", flat=True)
            level = [pk for pk in below if pk not in known]
            known |= set(level)
            found += len(level)
        return found

    @property
    def title(self) -> str:  # type: ignore[override]  # the number is known once there is a request
        return f"Cancel {_tasks(len(self.fitting))}"

    @property
    def button(self) -> str:  # type: ignore[override]  # the same
        return self.title if self.fitting else ""

    @property
    def typed(self) -> str:  # type: ignore[override]  # the same
        return several.to_type(len(self.fitting))

    def context(self) -> dict[str, Any]:
        over = [task for task in self.chosen[:MOST] if not task.is_open]
        left = f"These are the newest {MOST}; the others after that, in the same way."
        return {
            "title": self.title,
            **several.named([str(task) for task in self.fitting]),
            "skipped": [f"{task}: is {TaskState(task.state).label.lower()}" for task in over],
            "more_left": left if len(self.chosen) > MOST else "",
        }

    def effects(self) -> list[Effect]:
        agents = Counter(task.agent_name for task in self.fitting)
        at_work = sum(task.state == TaskState.WORKING and task.claims > 0 for task in self.fitting)
        return [
            counted("tasks", len(self.fitting), "Ends {} task for good", "Ends {} tasks for good"),
            counted("agents", len(agents), "{} agent is asked to stop", "{} agents are asked to stop"),
            counted("workers", at_work, "{} worker is refused from then on", "{} workers are refused from then on"),
            counted("parts", self.parts, "Also cancels {} part of them", "Also cancels {} tasks within them"),
        ]

    def back(self) -> str:
        query = self.request.GET.copy()
        for name in ("id", "all"):
            query.pop(name, None)
        return f"{link('a2a_task_changelist')}?{query.urlencode()}" if query else link("a2a_task_changelist")

    def act(self, form: ConsoleForm) -> str | HttpResponse:
        reason = form.cleaned_data["reason"]
        results = [
            attempt(
                "task", str(task), task.pk,
                lambda task=task: cancelling.cancel(actor=self.actor, task=task, reason=reason), done="done",
            )
            for task in self.fitting
        ]  # fmt: skip
        missed = [item for item in results if item.result != "done"]
        if not missed:
            count = len(results)
            messages.success(self.request, f"{_tasks(count)} {'is' if count == 1 else 'are'} cancelled.")
            return self.back()
        title = f"Cancel: {len(results) - len(missed)} of {len(results)} done"
        return render(self.request, "console/results.html", title=title, results=missed, back=self.back())


def _tasks(count: int) -> str:
    return f"{count} {'task' if count == 1 else 'tasks'}"


URLS = [path("bulk/cancel/", Cancel.as_view(), name="a2a_task_bulk_cancel")]
