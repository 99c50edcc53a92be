"""Cancelling several tasks: what was ticked, or all that the list's filters leave."""

from collections import Counter
from collections.abc import Callable
from typing import Any

from django.db.models import Q, QuerySet
from django.urls import path
from django.utils.functional import cached_property

from a2a import cancelling
from a2a.admin import tasks_cells
from a2a.admin.tasks_cancel import CancelForm
from a2a.admin.tasks_filters import FILTERS, SEARCH, needs
from a2a.choices import TaskState
from a2a.models import Task
from common.console.confirmation_dialogs import Effect, counted
from common.console.forms import ConsoleForm
from nhi.actors import Actor
from nhi.console.bulk_dialog import BulkDialog
from nhi.models import Identity


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


class Cancel(BulkDialog[Task]):
    """The newest first, so that a part is ended before the whole would end it."""

    form_class = CancelForm
    verb = "Cancel"
    nouns = ("task", "tasks")
    kind = "task"
    list_name = "a2a_task_changelist"
    filters = FILTERS
    search = SEARCH
    danger = True
    leave = "Keep them"

    def rows(self) -> QuerySet[Any]:
        rows: QuerySet[Any] = tasks_cells.for_lines(cancellable(self.actor)).alias(needs_me=needs(self.actor))
        return rows

    def fits(self, rows: QuerySet[Any]) -> QuerySet[Any]:
        return rows.filter(completed_at=None)

    def misfit(self, one: Task) -> str:
        return "" if one.is_open else f"is {TaskState(one.state).label.lower()}"

    @cached_property
    def parts(self) -> int:
        """Open tasks that end with these and were not picked themselves."""
        return len(cancelling.within(task.pk for task in self.fitting))

    def effects(self) -> list[Effect]:
        agents = Counter(task.agent_name for task in self.fitting)
        at_work = sum(task.state == TaskState.WORKING and task.claims > 0 for task in self.fitting)
        return [
            counted("tasks", len(self.fitting), "Ends {} task for good", "Ends {} tasks for good"),
            counted("agents", len(agents), "{} agent is asked to stop", "{} agents are asked to stop"),
            counted("workers", at_work, "{} worker is refused from then on", "{} workers are refused from then on"),
            counted("parts", self.parts, "Also cancels {} part of them", "Also cancels {} tasks within them"),
        ]

    def each(self, form: ConsoleForm) -> Callable[[Task], Any]:
        reason = form.cleaned_data["reason"]
        return lambda task: cancelling.cancel(actor=self.actor, task=task, reason=reason)

    def said(self, count: int) -> str:
        return f"{self.counted(count)} {'is' if count == 1 else 'are'} cancelled."


URLS = [path("bulk/cancel/", Cancel.as_view(), name="a2a_task_bulk_cancel")]
