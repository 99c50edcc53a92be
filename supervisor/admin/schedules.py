"""The list of schedules."""

from typing import Any

from django.contrib import admin
from django.db.models import Case, OuterRef, QuerySet, Subquery, When
from django.http import HttpRequest
from django.urls import URLPattern

from common.console.lists import Bulk, Preset
from common.console.pages import Control, link
from common.templatetags.console import as_curl
from nhi.console.base import VisibleRowsAdmin
from nhi.console.request_actor import actor_of
from supervisor.admin import schedules_cells, schedules_forms, schedules_tabs, schedules_verbs
from supervisor.admin.schedules_filters import FILTERS
from supervisor.models import Schedule, ScheduleFire
from supervisor.schedules import facts as schedule_facts

Rows = QuerySet[Any]


@admin.register(Schedule)
class ScheduleAdmin(VisibleRowsAdmin):
    title = "Schedules"
    lead = "Runs by the clock: each due time fires once, or says why it did not."
    template = "admin/supervisor/schedules/list.html"
    view_right = "supervisor.view_schedule"
    columns = schedules_cells.COLUMNS
    filters = FILTERS
    search = ("name__icontains", "agent__name__icontains", "cron_expression__icontains")
    search_words = "Name, agent or rule"
    order = ("idle", "next_execution", "name")
    bulk: tuple[Bulk, ...] = ()
    presets = (Preset("All"), Preset("Paused or off", "fires=no"), Preset("Missed", "missed=24h"))
    empty_title = "No schedule yet"
    empty_words = (
        "A schedule runs an agent without being asked: every hour, on weekdays at nine, on the first of a month."
    )
    empty_command = as_curl(
        "POST",
        "/api/nhi/supervisor/schedules",
        {
            "name": "morning-report", "agent_id": "…", "cron_expression": "30 9 * * MON-FRI",
            "timezone": "Europe/Vienna",
        },
    )  # fmt: skip
    empty_icon = "schedule"
    api_path = "/api/nhi/supervisor/schedules"

    def visible(self, request: HttpRequest) -> Rows:
        rows: Rows = Schedule.objects.visible_to(actor_of(request)).kept()
        return rows

    def related(self, rows: Rows) -> Rows:
        last = ScheduleFire.objects.filter(schedule=OuterRef("pk")).order_by("-due_at", "-id")
        drawn: Rows = (
            rows.select_related("agent__identity")
            .defer("sealed_input", "input_parameters")
            .annotate(
                last_fire_state=Subquery(last.values("state")[:1]),
                last_due=Subquery(last.values("due_at")[:1]),
                # What is due next comes first, and databases differ in where they put what is not.
                idle=Case(When(next_execution=None, then=1), default=0),
            )
        )
        return drawn

    def prepare(self, request: HttpRequest, rows: list[Any]) -> None:
        running = schedule_facts.running(rows)
        for row in rows:
            row.runs = row.pk in running

    def controls(self, request: HttpRequest) -> list[Control]:
        if not schedules_forms.may_add(actor_of(request)):
            return []
        return [Control("Add schedule", link("supervisor_schedule_add"), "add", dialog=False)]

    def row_url(self, row: Any) -> str:
        return link("supervisor_schedule_hub", row.pk)

    def pages(self) -> list[URLPattern]:
        return [*schedules_forms.URLS, *schedules_tabs.URLS, *schedules_verbs.URLS]
