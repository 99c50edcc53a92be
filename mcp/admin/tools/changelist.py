"""The list of tools."""

from datetime import timedelta
from typing import Any

from django.contrib import admin
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.http import HttpRequest
from django.urls import URLPattern
from django.utils.html import format_html

from common.console import badges
from common.console.lists import Bulk, Column, Filter, Preset, choice_filter
from common.console.pages import Control, link
from mcp.admin.call_statistics import Numbers, of_tools
from mcp.admin.navigation import pending, quarantined
from mcp.admin.tools import bulk_approval, callers, change_review, tabs, verbs
from mcp.admin.tools.hub import WAITING
from mcp.choices import DefinitionState
from mcp.models import Server, Tool
from mcp.templatetags.gateway import definition_of
from nhi.console import columns
from nhi.console.base import VisibleRowsAdmin
from nhi.console.request_actor import actor_of, may, may_change

MONTH = timedelta(days=30)
MOST_SERVERS = 200


def _servers(request: HttpRequest) -> list[tuple[str, str]]:
    names = Server.objects.visible_to(actor_of(request)).order_by("name").values_list("name", flat=True)
    return [(name, name) for name in names[:MOST_SERVERS]]


def _on_server(rows: QuerySet[Any], value: str) -> QuerySet[Any]:
    return rows.filter(server__name=value)


def _flagged(rows: QuerySet[Any], _value: str) -> QuerySet[Any]:
    return rows.exclude(current__flags=[]).exclude(current=None)


def _mine(rows: QuerySet[Any], _value: str) -> QuerySet[Any]:
    """Of rows that know whose they are to approve."""
    return rows.filter(Q(is_new_for_me=True) | Q(is_changed_for_me=True))


def _state_text(row: Tool) -> str:
    label = badges.find("mcp.DefinitionState", row.state).label
    return f"{label}, deprecated" if row.deprecated else label


def _flags(row: Any) -> Any:
    count = len(row.current.flags) if row.current else 0
    return format_html('<span class="gh-count gh-count--look">{}</span>', count) if count else ""


@admin.register(Tool)
class ToolAdmin(VisibleRowsAdmin):
    title = "Tools"
    lead = "What servers offer, by the names that agents call. Only what somebody approved is called."
    view_right = "mcp.view_tool"
    columns = (
        Column("Name", lambda row: row.identity.name, lambda row: row.identity.name, "identity__name", narrow=True),
        columns.plain("Server", lambda row: row.server.name, sort="server__name"),
        Column("Definition", definition_of, _state_text, "state", narrow=True),
        Column("Flags", _flags, lambda row: len(row.current.flags) if row.current else 0),
        columns.plain("Owner", lambda row: row.identity.owner.username, sort="identity__owner__username"),
        columns.plain("May be called by", lambda row: row.reach.words),
        columns.plain("Calls 30 d", lambda row: row.numbers.calls or ""),
        columns.moment("Last used", lambda row: row.numbers.last, missing="not in 30 d"),
    )
    filters = (
        Filter("server", "Server", _on_server, _servers),
        choice_filter("state", "Definition", "state", DefinitionState.choices),
        Filter("approve", "Who approves", _mine, lambda _request: (("me", "Me"),)),
        Filter("flagged", "Flags", _flagged, lambda _request: (("yes", "Flagged"),)),
        choice_filter("deprecated", "Deprecated", "deprecated", (("True", "Deprecated"), ("False", "In use"))),
        choice_filter(
            "approval", "Each call", "requires_approval", (("True", "Waits for a person"), ("False", "Passes at once"))
        ),
    )
    search = ("identity__name__icontains",)
    search_words = "Name"
    order = ("identity__name",)
    presets = (
        Preset("All"),
        Preset("Quarantined", "state=quarantined"),
        Preset("Needs approval", "state=pending"),
        Preset("Gone from server", "state=withdrawn"),
    )
    bulk = (Bulk("Approve first definitions", "mcp_tool_bulk_approve"),)
    empty_title = "No tool yet"
    empty_words = "A server's tools stand here as soon as it has been added and has answered."
    empty_command = "curl …/api/nhi/mcp/tools"
    empty_icon = "build"
    api_path = "/api/nhi/mcp/tools"

    def visible(self, request: HttpRequest) -> QuerySet[Any]:
        """With what the filter "approve" asks for: a filter does not know who asks."""
        actor, this = actor_of(request), OuterRef("pk")
        rows: QuerySet[Any] = (
            super()
            .visible(request)
            .alias(
                is_new_for_me=Exists(pending(actor).filter(pk=this)),
                is_changed_for_me=Exists(quarantined(actor).filter(pk=this)),
            )
        )
        return rows

    def controls(self, request: HttpRequest) -> list[Control]:
        """Tools come with servers: only a list without any leads there."""
        if not may_change(request, "mcp.add_server") or Tool.objects.exists():
            return []
        return [Control("Add server", link("mcp_server_add"), "add", dialog=False)]

    def bulk_for(self, request: HttpRequest) -> tuple[Bulk, ...]:
        return super().bulk_for(request) if may(request, "mcp.approve_definition") else ()

    def related(self, rows: QuerySet[Any]) -> QuerySet[Any]:
        joined = rows.select_related("identity__owner", "server", "current")
        return joined.defer("current__body", "server__instructions", "server__last_handshake")

    def prepare(self, request: HttpRequest, rows: list[Any]) -> None:
        reach = callers.of_page([row.identity for row in rows])
        numbers = of_tools([(row.server.name, row.name) for row in rows], span=MONTH)
        for row in rows:
            row.reach = reach[row.pk]
            row.numbers = numbers.get((row.server.name, row.name), Numbers())

    def row_url(self, row: Any) -> str:
        """What waits leads to what has to be looked at."""
        return link("mcp_tool_change" if row.state in WAITING else "mcp_tool_hub", row.pk)

    def pages(self) -> list[URLPattern]:
        return [*bulk_approval.URLS, *tabs.URLS, *change_review.URLS, *verbs.URLS]
