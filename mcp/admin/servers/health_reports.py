"""The history of checks: how each handshake with a server went, whoever asked for it."""

from datetime import timedelta
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString

from common.console import badges, times
from common.console.lists import Bulk, Column, Filter, Preset, choice_filter, text_filter
from common.console.pages import Tab, link, link_if_any
from common.templatetags.console import badge, outside
from mcp.choices import HealthStatus
from mcp.models import HealthReport, Server
from nhi.console import columns
from nhi.console.base import VisibleRowsAdmin
from nhi.console.request_actor import actor_of

Rows = QuerySet[Any]
LISTS = (("Breakers", "mcp_breaker_changelist"), ("Checks", "mcp_healthreport_changelist"))
SPANS = {"1h": ("Last hour", 1), "7d": ("Last 7 d", 7 * 24), "30d": ("Last 30 d", 30 * 24)}
FIRST_HOURS = 24


def siblings(current: str) -> list[Tab]:
    return [Tab(label, link(page), current=page == current) for label, page in LISTS]


def _ago(hours: int) -> Any:
    return timezone.now() - timedelta(hours=hours)


def _server(row: Any) -> SafeString:
    url = link_if_any("mcp_server_health", row.server_id)
    return format_html('<a href="{}">{}</a>', url, row.server) if url else format_html("{}", row.server)


def _latency(row: Any) -> str:
    return times.lasted(row.handshake_latency_ms) if row.handshake_latency_ms is not None else ""


@admin.register(HealthReport)
class HealthReportAdmin(VisibleRowsAdmin):
    title = "Checks of servers"
    lead = "A handshake every 30 seconds, and whenever somebody asks for one. Kept for 30 days."
    view_right = "mcp.view_healthreport"
    log_time = "timestamp"
    columns = (
        columns.moment("Time", lambda row: row.timestamp, form="log", narrow=True),
        Column("Server", _server, lambda row: row.server.name, narrow=True),
        columns.state(
            "Found",
            lambda row: badges.find("mcp.HealthStatus", row.status),
            lambda row: badge(row.status, "mcp.HealthStatus"),
        ),
        columns.plain("Handshake", _latency),
        columns.plain("Protocol", lambda row: row.protocol_version),
        Column("What went wrong", lambda row: outside(row.error_message, 200), lambda row: row.error_message),
        columns.plain("Asked by", lambda row: row.asked_by),
    )
    filters = (
        Filter(
            "span",
            "Time",
            lambda rows, value: rows.filter(timestamp__gte=_ago(SPANS[value][1])),
            lambda _request: [(key, words) for key, (words, _) in SPANS.items()],
            empty="Last 24 h",
        ),
        text_filter("server", "Server", "server__name"),
        choice_filter("status", "Found", "status", HealthStatus.choices),
    )
    order = ("-timestamp", "-id")
    presets = (Preset("All"), Preset("Unhealthy", "status=Unhealthy"), Preset("Degraded", "status=Degraded"))
    bulk: tuple[Bulk, ...] = ()
    empty_title = "No check in the last 24 hours"
    empty_words = "Each server is checked by the clock while the worker runs."
    empty_icon = "monitor_heart"
    api_path = "/api/nhi/mcp/health-reports"

    def visible(self, request: HttpRequest) -> Rows:
        """Of the servers that this person sees; by their ids, so that the index of server and time is used."""
        servers = list(Server.objects.visible_to(actor_of(request)).values_list("pk", flat=True))
        rows: Rows = HealthReport.objects.filter(server__in=servers)
        return rows if request.GET.get("span") in SPANS else rows.filter(timestamp__gte=_ago(FIRST_HOURS))

    def related(self, rows: Rows) -> Rows:
        return rows.select_related("server")

    def siblings(self, _request: HttpRequest) -> list[Tab]:
        return siblings(self.list_name)
