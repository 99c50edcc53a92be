"""The list of runs: every one that was asked for, whatever became of it."""

import zlib
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern, path
from django.utils.functional import cached_property

from common.console.lists import Bulk, Preset
from common.console.pages import PART, Control, Crumb, link
from common.ids import parse_uuid
from common.templatetags.console import as_curl
from nhi.console.base import ActorPage, VisibleRowsAdmin
from nhi.console.request_actor import actor_of
from supervisor.admin import (
    executions_again,
    executions_bulk,
    executions_cells,
    executions_download,
    executions_seen,
    executions_stop,
    executions_tabs,
)
from supervisor.admin.executions_filters import FILTERS, WRONG, WRONG_WORDS
from supervisor.models import Execution

MOST_ASKED = 50


@admin.register(Execution)
class ExecutionAdmin(VisibleRowsAdmin):
    title = "Executions"
    lead = "Every run of an agent, the newest first: by whom it was asked for, how long it waited, what came of it."
    template = "admin/supervisor/executions/list.html"
    view_right = "supervisor.view_execution"
    log_time = "created_at"
    columns = executions_cells.COLUMNS
    filters = FILTERS
    order = ("-created_at", "-id")
    bulk = (
        Bulk("Run again", "supervisor_execution_bulk_again"),
        Bulk("Cancel", "supervisor_execution_bulk_cancel", danger=True),
    )
    bulk_by_filter = True
    presets = (
        Preset("All"),
        Preset("Not done yet", "state=open"),
        Preset(WRONG_WORDS, f"state={WRONG}"),
        Preset("By schedule", "trigger=schedule"),
    )
    empty_title = "Nothing has run yet"
    empty_words = "Each run of an agent becomes a row here, from the moment that somebody asks for it."
    empty_command = as_curl("POST", "/api/nhi/supervisor/agents/{id}/execute", {"input": "Summarise this."})
    empty_icon = "play_circle"
    api_path = "/api/nhi/supervisor/executions"

    def visible(self, request: HttpRequest) -> QuerySet[Any]:
        return executions_seen.with_look(actor_of(request), super().visible(request))

    def prepare(self, request: HttpRequest, rows: list[Any]) -> None:
        executions_seen.note_rows(request, rows)

    def controls(self, request: HttpRequest) -> list[Control]:
        return executions_seen.controls(request)

    def first_steps(self, request: HttpRequest) -> list[Control]:
        if not executions_bulk.may_any(actor_of(request)):
            return []
        return [Control("Choose an agent to run", link("supervisor_agent_changelist"), "play_arrow", dialog=False)]

    def related(self, rows: QuerySet[Any]) -> QuerySet[Any]:
        return executions_cells.with_first_start(rows)

    def bulk_for(self, request: HttpRequest) -> tuple[Bulk, ...]:
        """For who may stop some of them, or run them."""
        return super().bulk_for(request) if executions_bulk.may_any(actor_of(request)) else ()

    def saved_views(self, request: HttpRequest) -> list[tuple[str, str]]:
        actor = actor_of(request)
        mine = [] if actor.only_reads else [("Mine", urlencode({"by": actor.name}))]
        return [*mine, *super().saved_views(request)]

    def row_url(self, row: Any) -> str:
        return link("supervisor_execution_hub", row.pk)

    def pages(self) -> list[URLPattern]:
        return [
            path("states/", States.as_view(), name="supervisor_execution_states"),
            *executions_tabs.URLS,
            *executions_download.URLS,
            *executions_stop.URLS,
            *executions_bulk.URLS,
            *executions_again.URLS,
            *executions_seen.URLS,
        ]


class States(ActorPage):
    """How the runs of an open page are now, by their ids; no content while they are as they were seen last."""

    template = "admin/supervisor/executions/states.html"

    def get(self, request: HttpRequest, **_kwargs: Any) -> HttpResponse:
        unchanged = not self.found or request.GET.get("seen") == self.seen
        return HttpResponse(status=204, headers={PART: "1"}) if unchanged else self.page()

    def context(self) -> dict[str, Any]:
        return {
            "title": "States of runs",
            "crumb": Crumb("Executions", link("supervisor_execution_changelist")),
            "seen": self.seen,
            "states": [(run.pk, executions_cells.state(run)) for run in self.found],
        }

    @property
    def seen(self) -> str:
        """One word for these states and no others."""
        said = "".join(f"{run.pk}{run.moves}{run.cancel_requested_at}" for run in self.found)
        return f"{zlib.crc32(said.encode()):08x}"

    @cached_property
    def found(self) -> list[Execution]:
        rows = Execution.objects.visible_to(self.actor).filter(pk__in=self._asked())
        return list(rows.defer(*executions_cells.NOT_SHOWN).order_by("pk"))

    def _asked(self) -> list[UUID]:
        said = self.request.GET.getlist("id")[:MOST_ASKED]
        return [known for text in said if (known := parse_uuid(text))]
