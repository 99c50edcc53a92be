"""The list of deliveries as a file."""

from collections.abc import Iterable
from typing import Any

from django.db.models import QuerySet

from a2a.admin import tasks_cells
from a2a.admin.deliveries_filters import FILTERS, SEARCH
from a2a.models import Delivery
from nhi.console.log_export import LogExport


class Export(LogExport):
    title = "Export deliveries"
    log = "deliveries"
    changelist = "a2a_delivery_changelist"
    filters = FILTERS
    search = SEARCH
    time = "created_at"
    head = (
        "created_at", "id", "task_id", "task_state", "webhook_id", "owner_name", "url", "state", "reason", "attempts",
        "last_status", "next_at", "delivered_at",
    )  # fmt: skip
    only_jsonl = ("body",)
    never = ("lease_mark", "lease_until", "url_mark")

    def rows(self) -> QuerySet[Any]:
        unread = (f"task__{name}" for name in tasks_cells.NOT_SHOWN)
        return Delivery.objects.visible_to(self.actor).select_related("task").defer(*unread)

    def cells(self, row: Delivery) -> Iterable[Any]:
        return [row.task.state if name == "task_state" else getattr(row, name) for name in self.head[1:]]
