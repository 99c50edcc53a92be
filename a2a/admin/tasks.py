"""The list of tasks: every one that was sent, whatever became of it."""

import zlib
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern, path
from django.utils.functional import cached_property

from a2a.admin import (
    tasks_bulk,
    tasks_cancel,
    tasks_cells,
    tasks_export,
    tasks_redeliver,
    tasks_reply,
    tasks_send,
    tasks_tabs,
)
from a2a.admin.tasks_filters import FILTERS, GROUPS, OPEN, SEARCH, WAITING, WRONG, needs
from a2a.models import Task
from common.console.lists import Bulk, Preset
from common.console.pages import PART, Control, Crumb, link
from common.ids import parse_uuid
from nhi.console.base import ActorPage, VisibleRowsAdmin
from nhi.console.request_actor import actor_of

MOST_ASKED = 50


@admin.register(Task)
class TaskAdmin(VisibleRowsAdmin):
    title = "Tasks"
    lead = "What agents were asked to do, the newest first: by whom, where it stands, how long there is."
    template = "admin/a2a/tasks/list.html"
    view_right = "a2a.view_task"
    log_time = "created_at"
    columns = tasks_cells.COLUMNS
    filters = FILTERS
    order = ("-created_at", "-id")
    search = SEARCH
    search_words = "Agent, type, name or id"
    bulk = (Bulk("Cancel", "a2a_task_bulk_cancel", danger=True),)
    bulk_by_filter = True
    presets = (Preset("All"), *(Preset(GROUPS[name], f"state={name}") for name in (OPEN, WAITING, WRONG)))
    empty_title = "Nobody has sent a task yet"
    empty_words = "Whoever has a grant to call an agent may send it tasks; each of them becomes a row here."
    empty_command = (
        'curl -X POST …/api/nhi/a2a/tasks -H "Authorization: Bearer $TOKEN" -H "Content-Type: application/json" \\\n'
        '  -d \'{"target_agent_id": "…", "task_type": "summarise", "input": {"text": "…"}}\''
    )
    empty_icon = "task"
    api_path = "/api/nhi/a2a/tasks"

    def visible(self, request: HttpRequest) -> QuerySet[Any]:
        """With what the filter "needs me" asks for: a filter does not know who asks."""
        rows: QuerySet[Any] = super().visible(request).alias(needs_me=needs(actor_of(request)))
        return rows

    def related(self, rows: QuerySet[Any]) -> QuerySet[Any]:
        return tasks_cells.for_lines(rows)

    def saved_views(self, request: HttpRequest) -> list[tuple[str, str]]:
        mine = [] if actor_of(request).only_reads else [("Needs me", "needs=me")]
        return [*mine, *super().saved_views(request)]

    def bulk_for(self, request: HttpRequest) -> tuple[Bulk, ...]:
        """For who may cancel some of them."""
        return super().bulk_for(request) if tasks_bulk.may_any(actor_of(request)) else ()

    def controls(self, request: HttpRequest) -> list[Control]:
        return tasks_send.control(actor_of(request))

    def row_url(self, row: Any) -> str:
        return link("a2a_task_hub", row.pk)

    def may_export(self, _request: HttpRequest) -> bool:
        """Not as other lists, which are read whole: this one has an export that streams."""
        return False

    def more(self, request: HttpRequest) -> dict[str, Any]:
        charts = f"{link('a2a_charts')}?only=tasks" if self.may_see_all(request) else ""
        return {"export_url": tasks_export.export_link(request, "a2a_task_export"), "charts_url": charts}

    def pages(self) -> list[URLPattern]:
        return [
            path("states/", States.as_view(), name="a2a_task_states"),
            *tasks_send.URLS,
            path("export/", tasks_export.Export.as_view(), name="a2a_task_export"),
            *tasks_tabs.URLS,
            *tasks_cancel.URLS,
            *tasks_reply.URLS,
            *tasks_redeliver.URLS,
            *tasks_bulk.URLS,
        ]


class States(ActorPage):
    """How the tasks of an open page are now, by their ids; no content while they are as they were seen last."""

    template = "admin/supervisor/executions/states.html"

    def get(self, request: HttpRequest, **_kwargs: Any) -> HttpResponse:
        unchanged = not self.found or request.GET.get("seen") == self.seen
        return HttpResponse(status=204, headers={PART: "1"}) if unchanged else self.page()

    def context(self) -> dict[str, Any]:
        return {
            "title": "States of tasks",
            "crumb": Crumb("Tasks", link("a2a_task_changelist")),
            "seen": self.seen,
            "states": [(task.pk, tasks_cells.state(task)) for task in self.found],
        }

    @property
    def seen(self) -> str:
        """One word for these states and no others."""
        return f"{zlib.crc32(''.join(f'{task.pk}{task.last_seq}' for task in self.found).encode()):08x}"

    @cached_property
    def found(self) -> list[Task]:
        asked = self.request.GET.getlist("id")[:MOST_ASKED]
        known = [known for text in asked if (known := parse_uuid(text))]
        rows = Task.objects.visible_to(self.actor).filter(pk__in=known)
        return list(rows.defer(*tasks_cells.NOT_SHOWN).order_by("pk"))
