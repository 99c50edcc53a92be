"""The call log: list and export."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import URLPattern, path

from common.console import keyset, navigation, times
from common.console.lists import OWN, Bulk, ListQuery, Preset
from common.console.navigation import SidebarItem
from common.console.pages import link
from mcp.admin.calls import active_calls, cells, live_tail, run_links, timeline
from mcp.admin.calls import filters as calls_filters
from mcp.admin.calls.active_calls import ActiveCallRow
from mcp.admin.calls.detail import CallPage, CallPanel
from mcp.admin.calls.filters import FILTERS, within_a_day
from nhi.console.base import VisibleRowsAdmin
from nhi.console.log_export import LogExport
from nhi.console.request_actor import actor_of, may
from nhi.models import InvocationLog


@admin.register(InvocationLog)
class InvocationLogAdmin(VisibleRowsAdmin):
    title = "Calls"
    lead = (
        "Every call of a tool by an identity that may call, refused ones too. Written when it ends, and never changed "
        "since."
    )
    template = "admin/mcp/calls/list.html"
    view_right = "nhi.view_invocationlog"
    log_time = "timestamp"
    columns = cells.COLUMNS
    filters = calls_filters.FILTERS
    order = ("-timestamp", "-id")
    bulk: tuple[Bulk, ...] = ()
    empty_title = "No call in the last 24 hours"
    empty_words = "Each call of a tool becomes a row here: who called what, whether it was allowed, how long it took."
    empty_command = (
        'curl -X POST "$GATEHOUSE/api/nhi/mcp/tools/github__create_issue/call" -H "Authorization: Bearer $TOKEN" …'
    )
    empty_icon = "receipt_long"
    presets = (
        Preset("All"),
        Preset("Denied", "outcome=permission_denied"),
        Preset("Errors", "outcome=error"),
        Preset("Rate limited", "outcome=rate_limited"),
        Preset("Slow", "slower=1000"),
    )
    api_path = "/api/nhi/mcp/invocations"

    def visible(self, request: HttpRequest) -> QuerySet[Any]:
        return calls_filters.within_a_day(super().visible(request), request.GET)

    def related(self, rows: QuerySet[Any]) -> QuerySet[Any]:
        return rows.defer(*cells.NOT_SHOWN)

    def saved_views(self, request: HttpRequest) -> list[tuple[str, str]]:
        actor = actor_of(request)
        mine = [] if actor.only_reads else [("Mine", urlencode({"owner": actor.name}))]
        return [*mine, *super().saved_views(request)]

    def prepare(self, request: HttpRequest, rows: list[Any]) -> None:
        done = [row for row in rows if not isinstance(row, ActiveCallRow)]
        runs = run_links.of(actor_of(request), done)
        for row in done:
            row.within = runs.get(row.execution_id)

    def row_url(self, row: Any) -> str:
        return "" if isinstance(row, ActiveCallRow) else link("nhi_invocationlog_call", row.pk)

    def may_export(self, _request: HttpRequest) -> bool:
        """Not as other lists, which are read whole: the log has an export that streams."""
        return False

    def more(self, request: HttpRequest) -> dict[str, Any]:
        seen = {
            "misread": calls_filters.misread(request),
            "refused_tokens": _refused_tokens(request),
            "strip": timeline.of(request),
            "tail_url": live_tail.url(request),
        }
        if not super().may_export(request):
            return seen
        query = {name: value for name, value in request.GET.items() if name not in OWN}
        return {**seen, "export_url": f"{link('nhi_invocationlog_export')}?{urlencode(query)}"}

    def pages(self) -> list[URLPattern]:
        return [
            path("export/", Export.as_view(), name="nhi_invocationlog_export"),
            path("tail/", live_tail.Tail.as_view(), name="nhi_invocationlog_tail"),
            path("<uuid:pk>/part/", CallPanel.as_view(), name="nhi_invocationlog_part"),
            path("<uuid:pk>/", CallPage.as_view(), name="nhi_invocationlog_call"),
        ]

    def _log_page(self, listing: ListQuery) -> keyset.Slice:
        """The first page begins with what is under way."""
        page = super()._log_page(listing)
        if listing.query.get("before") or listing.query.get("after"):
            return page
        return replace(page, rows=[*active_calls.visible(actor_of(listing.request), listing), *page.rows])

    def _drawn(self, row: Any) -> dict[str, Any]:
        return {**super()._drawn(row), "name": f"call of {times.exact(row.timestamp)}"}


def _refused_tokens(request: HttpRequest) -> str:
    """Where tokens that do not hold are counted, for who may look there."""
    return link("nhi_refusedauthentication_changelist") if may(request, "nhi.view_auditevent") else ""


navigation.add_sidebar_items(
    SidebarItem(
        "Activity",
        "Calls",
        "receipt_long",
        "nhi_invocationlog_changelist",
        lambda request: may(request, "nhi.view_invocationlog"),
    )
)


class Export(LogExport):
    title = "Export calls"
    log = "calls"
    changelist = "nhi_invocationlog_changelist"
    filters = FILTERS
    time = "timestamp"
    head = (
        "timestamp", "agent_name", "agent_role", "tool_name", "method", "status", "reason", "error_code",
        "error_message", "duration", "redaction_applied", "args_hash", "source", "thread_id", "request_id", "run_id",
        "id", "calls",
    )  # fmt: skip
    unfiltered = "span=24h"

    def rows(self) -> QuerySet[Any]:
        return within_a_day(InvocationLog.objects.visible_to(self.actor), self.request.GET)

    def cells(self, row: InvocationLog) -> Iterable[Any]:
        return [getattr(row, name) for name in self.head[1:]]
