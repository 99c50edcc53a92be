"""Whether the caller heard of a task's end: a tab of its page."""

from typing import Any

from django.urls import path

from a2a.admin import deliveries_cells
from a2a.admin.deliveries_filters import list_url
from a2a.admin.tasks_hub import Hub
from a2a.models import Delivery

MOST = 50


class Deliveries(Hub):
    tab = "deliveries"
    template = "admin/a2a/tasks/deliveries.html"

    def context(self) -> dict[str, Any]:
        seen = Delivery.objects.visible_to(self.actor).filter(task_id=self.task.pk)
        rows = list(deliveries_cells.for_lines(seen).order_by("-created_at", "-id")[: MOST + 1])
        return {
            **super().context(),
            "headings": deliveries_cells.HEADINGS,
            "rows": [deliveries_cells.drawn(row) for row in rows[:MOST]],
            "more_url": list_url(task=str(self.task.pk)) if len(rows) > MOST else "",
        }


URLS = [path("<uuid:pk>/deliveries/", Deliveries.as_view(), name="a2a_task_deliveries")]
