"""The list of deliveries: what callbacks and push notifications tell of tasks, and whether receivers heard it."""

from typing import Any
from urllib.parse import urlencode

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import URLPattern, path

from a2a.admin import deliveries_bulk, deliveries_cells, deliveries_tabs, deliveries_verbs, webhook_secrets
from a2a.admin.deliveries_export import Export
from a2a.admin.deliveries_filters import DEAD, FILTERS, SEARCH, TRIED, UNHEARD
from a2a.admin.tasks_export import export_link
from a2a.models import Delivery
from common.console.lists import Bulk, Preset
from common.console.pages import Tab, link
from nhi.console.base import VisibleRowsAdmin
from nhi.console.request_actor import actor_of


@admin.register(Delivery)
class DeliveryAdmin(VisibleRowsAdmin):
    title = "Deliveries"
    lead = (
        "What receivers are told of tasks, the newest first: ends to callbacks, every event to who asked for that. "
        "Heard or not, and when the next try is."
    )
    template = "admin/a2a/deliveries/list.html"
    view_right = "a2a.view_delivery"
    log_time = "created_at"
    columns = deliveries_cells.COLUMNS
    filters = FILTERS
    search = SEARCH
    search_words = "Endpoint, name or id"
    order = ("-created_at", "-id")
    bulk = (Bulk("Redeliver", "a2a_delivery_bulk_redeliver"), Bulk("Call off", "a2a_delivery_bulk_stop", danger=True))
    bulk_by_filter = True
    presets = (
        Preset("All"),
        Preset("Gave up", f"state={DEAD}"),
        Preset("Still tried", f"state={TRIED}"),
        Preset("Not delivered", f"state={UNHEARD}"),
    )
    empty_title = "No callback was sent yet"
    empty_words = (
        "Who sends a task with a callback_url is told when it has ended, and who sets a push configuration of every "
        "event, by a signed POST that is tried for three days. Each becomes a row here, with every attempt at it."
    )
    empty_command = (
        'curl -X POST …/api/nhi/a2a/tasks -H "Authorization: Bearer $TOKEN" -H "Content-Type: application/json" \\\n'
        '  -d \'{"target_agent_id": "…", "task_type": "summarise", "input": {"text": "…"},\n'
        '       "callback_url": "https://hooks.example.com/gatehouse"}\''
    )
    empty_icon = "outgoing_mail"
    api_path = "/api/nhi/a2a/deliveries"

    def related(self, rows: QuerySet[Any]) -> QuerySet[Any]:
        return deliveries_cells.for_lines(rows)

    def siblings(self, _request: HttpRequest) -> list[Tab]:
        return webhook_secrets.siblings("a2a_delivery_changelist")

    def saved_views(self, request: HttpRequest) -> list[tuple[str, str]]:
        actor = actor_of(request)
        mine = [] if actor.only_reads else [("Mine", urlencode({"by": actor.name}))]
        return [*mine, *super().saved_views(request)]

    def bulk_for(self, request: HttpRequest) -> tuple[Bulk, ...]:
        """For who may do either to some of them."""
        return super().bulk_for(request) if deliveries_bulk.may_any(actor_of(request)) else ()

    def row_url(self, row: Any) -> str:
        return link("a2a_delivery_hub", row.pk)

    def may_export(self, _request: HttpRequest) -> bool:
        """Not as other lists, which are read whole: this one has an export that streams."""
        return False

    def more(self, request: HttpRequest) -> dict[str, Any]:
        charts = f"{link('a2a_charts')}?only=deliveries" if self.may_see_all(request) else ""
        return {"export_url": export_link(request, "a2a_delivery_export"), "charts_url": charts}

    def pages(self) -> list[URLPattern]:
        return [
            path("export/", Export.as_view(), name="a2a_delivery_export"),
            *deliveries_tabs.URLS,
            *deliveries_verbs.URLS,
            *deliveries_bulk.URLS,
        ]
