"""The list of tasks as a file."""

from collections.abc import Iterable
from typing import Any
from urllib.parse import urlencode

from django.db.models import QuerySet
from django.http import HttpRequest

from a2a.admin import tasks_cells
from a2a.admin.tasks_filters import FILTERS, SEARCH, needs
from a2a.models import Task
from common.console.lists import OWN
from common.console.pages import link
from nhi.console.log_export import LogExport
from nhi.console.request_actor import may


def export_link(request: HttpRequest, page: str) -> str:
    """For who may export, with the filters of the list."""
    if not may(request, "nhi.export_data"):
        return ""
    query = {name: value for name, value in request.GET.items() if name not in OWN or name == "q"}
    return f"{link(page)}?{urlencode(query)}" if query else link(page)


class Export(LogExport):
    title = "Export tasks"
    log = "tasks"
    changelist = "a2a_task_changelist"
    filters = FILTERS
    search = SEARCH
    time = "created_at"
    head = (
        "created_at", "id", "task_type", "from", "to", "state", "word", "error_code", "error_message", "started_at",
        "completed_at", "deadline", "claims", "created_by_name", "cancelled_by_name", "parent_id", "context_id",
        "grant_id", "request_id",
    )  # fmt: skip
    only_jsonl = ("input", "result", "metadata", "status_message", "chain", "allowed_by")
    never = ("lease_mark", "sealed_callback_url")

    def rows(self) -> QuerySet[Any]:
        seen: QuerySet[Any] = Task.objects.visible_to(self.actor).alias(needs_me=needs(self.actor))
        return seen.select_related("source")

    def cells(self, row: Task) -> Iterable[Any]:
        derived = {"from": tasks_cells.asked_by(row), "to": row.agent_name, "word": row.word}
        return [derived[name] if name in derived else getattr(row, name) for name in self.head[1:]]
