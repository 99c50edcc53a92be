"""The list of servers."""

from datetime import timedelta
from typing import Any

from django.contrib import admin
from django.db.models import Count, Q
from django.http import HttpRequest
from django.urls import URLPattern

from common.console.lists import Preset, choice_filter
from common.console.pages import Control, link
from mcp.admin.call_statistics import Numbers, of_servers
from mcp.admin.servers import cells, form_pages, tabs, verbs
from mcp.choices import Connection, DefinitionState, Transport
from mcp.models import Call, Server, Tool
from nhi.console.base import VisibleRowsAdmin
from nhi.console.request_actor import may_change

DAY = timedelta(days=1)


@admin.register(Server)
class ServerAdmin(VisibleRowsAdmin):
    title = "Servers"
    lead = "Where tools come from. Each is met every 30 seconds; what fails stands first."
    view_right = "mcp.view_server"
    columns = cells.COLUMNS
    filters = (
        choice_filter("status", "Status", "status", Connection.choices),
        choice_filter("transport", "Transport", "transport", Transport.choices),
        choice_filter("enabled", "Enabled", "enabled", (("True", "Enabled"), ("False", "Disabled"))),
    )
    search = ("name__icontains", "description__icontains", "base_url__icontains", "command__icontains")
    search_words = "Name, description, address or command"
    order = ("-enabled", "status", "name")
    presets = (
        Preset("All"),
        Preset("Offline", "enabled=True&status=Offline"),
        Preset("Degraded", "enabled=True&status=Degraded"),
    )
    empty_title = "No server yet"
    empty_words = (
        "A server offers tools: a process that runs here, or an address elsewhere. Add one, approve its tools, "
        "and give agents access to them."
    )
    empty_command = (
        "curl -X POST …/api/nhi/mcp/servers -d "
        '\'{"name": "todo", "transport": "http", "base_url": "https://todo.example.com/mcp"}\''
    )
    empty_icon = "dns"
    api_path = "/api/nhi/mcp/servers"

    def controls(self, request: HttpRequest) -> list[Control]:
        if not may_change(request, "mcp.add_server"):
            return []
        return [Control("Add server", link("mcp_server_add"), "add", dialog=False)]

    def prepare(self, request: HttpRequest, rows: list[Any]) -> None:
        """What one page shows beside the rows themselves: three counts, each in one query."""
        ids = [row.pk for row in rows]
        tools = {
            server: counts
            for server, *counts in Tool.objects.filter(server__in=ids).order_by().values_list("server").annotate(
                offered=Count("pk", filter=~Q(state=DefinitionState.WITHDRAWN)),
                quarantined=Count("pk", filter=Q(state=DefinitionState.QUARANTINED)),
            )
        }  # fmt: skip
        flights = dict(Call.objects.filter(server_id__in=ids).order_by().values_list("server_id").annotate(Count("pk")))
        numbers = of_servers([row.name for row in rows], span=DAY)
        for row in rows:
            row.tool_count, row.quarantined = tools.get(row.pk, (0, 0))
            row.in_flight = flights.get(row.pk, 0)
            row.numbers = numbers.get(row.name, Numbers())

    def row_url(self, row: Any) -> str:
        return link("mcp_server_hub", row.pk)

    def pages(self) -> list[URLPattern]:
        return [*form_pages.URLS, *tabs.URLS, *verbs.URLS]
