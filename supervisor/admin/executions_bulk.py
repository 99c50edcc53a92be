"""Verbs for several runs, what was ticked or all that the list's filters leave; here stopping them."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from django.urls import path
from django.utils.functional import cached_property

from common.console.confirmation_dialogs import Effect, counted
from common.console.forms import ConsoleForm
from nhi.actors import Actor
from nhi.console.bulk_dialog import BulkDialog
from nhi.models import Identity
from supervisor import access, cancelling
from supervisor.admin import executions_cells, executions_seen
from supervisor.admin.executions_filters import FILTERS
from supervisor.admin.executions_stop import StopForm
from supervisor.choices import ExecutionState, Mode
from supervisor.models import Execution


def may_any(actor: Actor) -> bool:
    """Whether there may be some that this person may stop or run again."""
    rights = actor.may(cancelling.RIGHT) or actor.may(access.RUN)
    return not actor.only_reads and (rights or Identity.objects.used_by(actor).exists())


class Bulk(BulkDialog[Execution]):
    nouns = ("run", "runs")
    kind = "execution"
    list_name = "supervisor_execution_changelist"
    filters = FILTERS

    def rows(self) -> QuerySet[Execution]:
        seen = Execution.objects.visible_to(self.actor).select_related("agent__identity")
        return executions_seen.with_look(self.actor, seen.defer(*executions_cells.NOT_SHOWN))


class Cancel(Bulk):
    verb = "Cancel"
    form_class = StopForm
    danger = True
    leave = "Leave them"

    def fits(self, rows: QuerySet[Execution]) -> QuerySet[Execution]:
        return cancelling.within_reach(self.actor, rows.filter(status=None, cancel_requested_at=None))

    def misfit(self, one: Execution) -> str:
        if one.status is not None:
            return "has ended already"
        if one.cancel_requested_at is not None:
            return "is being stopped already"
        return "" if one.pk in self._stoppable else "is not yours to stop"

    @cached_property
    def _stoppable(self) -> set[UUID]:
        """Asked once for all that were chosen."""
        return cancelling.among(self.actor, self.chosen)

    def effects(self) -> list[Effect]:
        waiting = sum(run.state == ExecutionState.QUEUED for run in self.fitting)
        under_way = len(self.fitting) - waiting
        grace = f"{cancelling.GRACE:g} s"
        talks = sum(run.mode == Mode.INTERACTIVE for run in self.fitting)
        tasks = sum(run.task_id is not None for run in self.fitting)
        return [
            counted("waiting", waiting, "{} leaves the queue unstarted", "{} leave the queue unstarted"),
            counted(
                "running", under_way, f"{{}} is asked to end (TERM), and what is left of it after {grace} ended (KILL)",
                f"{{}} are asked to end (TERM), and what is left of them after {grace} ended (KILL)",
            ),
            counted("sessions", talks, "{} of them is a session, which closes", "{} of them are sessions, which close"),
            counted("tasks", tasks, "{} of them does a task, which ends too", "{} of them do tasks, which end too"),
        ]  # fmt: skip

    def each(self, form: ConsoleForm) -> Callable[[Execution], Any]:
        reason = form.cleaned_data["reason"]
        return lambda run: cancelling.cancel(actor=self.actor, execution=run, reason=reason)


URLS = [path("bulk/cancel/", Cancel.as_view(), name="supervisor_execution_bulk_cancel")]
