"""Whether the caller heard of a task's end: a tab of its page."""

from typing import Any

from django.db.models import Count, Sum
from django.urls import path
from django.utils.functional import cached_property

from a2a import deliveries
from a2a.admin import deliveries_cells, tasks_receivers
from a2a.admin.deliveries_filters import list_url
from a2a.admin.tasks_hub import Hub
from a2a.choices import DeliveryState
from a2a.models import Delivery
from common.console.pages import Control, link

MOST = 50
LOST = (DeliveryState.DEAD, DeliveryState.BLOCKED, DeliveryState.DISABLED)


class Deliveries(Hub):
    tab = "deliveries"
    template = "admin/a2a/tasks/deliveries.html"

    #: They begin when the task has ended, and may be redelivered whenever somebody wants to.
    goes_on = True

    @cached_property
    def seen(self) -> str:
        """With each state and attempt of what it shows."""
        rows = Delivery.objects.visible_to(self.actor).filter(task_id=self.task.pk).order_by()
        counted = rows.values_list("state").annotate(Count("pk"), Sum("attempts")).order_by("state")
        return "-".join([super().seen, *(f"{state}{count}.{made}" for state, count, made in counted)])

    def context(self) -> dict[str, Any]:
        seen = Delivery.objects.visible_to(self.actor).filter(task_id=self.task.pk)
        rows = list(deliveries_cells.for_lines(seen).order_by("-created_at", "-id")[: MOST + 1])
        return {
            **super().context(),
            "headings": deliveries_cells.HEADINGS,
            "rows": [deliveries_cells.drawn(row) for row in rows[:MOST]],
            "again": self._again(rows[:MOST]),
            "receivers": tasks_receivers.lines(self.actor, self.task),
            "more_url": list_url(task=str(self.task.pk)) if len(rows) > MOST else "",
        }

    def _again(self, rows: list[Delivery]) -> list[Control]:
        """Of what is over and was not heard, one by one."""
        if self.actor.only_reads:
            return []
        may = self.actor.may(deliveries.RIGHT) or Delivery.objects.held_by(self.actor).filter(task=self.task).exists()
        lost = [row for row in rows if row.state in LOST] if may else []
        if lost:
            sendable = Delivery.objects.receivable().filter(pk__in=[row.pk for row in lost])
            kept = set(sendable.values_list("pk", flat=True))
            lost = [row for row in lost if row.pk in kept]
        label = "Redeliver to {}" if len(lost) > 1 else "Redeliver"
        return [
            Control(label.format(deliveries_cells.endpoint(row)), link("a2a_delivery_redeliver", row.pk), "replay")
            for row in lost
        ]


URLS = [
    path("<uuid:pk>/deliveries/", Deliveries.as_view(), name="a2a_task_deliveries"),
    *tasks_receivers.URLS,
]
