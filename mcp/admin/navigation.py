"""What this app adds to the frame of the console: sidebar, what needs a person, palette, names in sentences.

Addresses are names here and are looked up when a page is drawn: the site's own are made of these modules.
"""

from collections.abc import Callable
from typing import Any

from django.db.models import QuerySet
from django.http import HttpRequest

from common.console import navigation
from common.console.navigation import SidebarItem
from mcp.choices import Connection, DefinitionState
from mcp.models import Server, Tool
from mcp.tools import reviewers
from nhi.actors import Actor
from nhi.console import attention_counts, event_sentences
from nhi.console.attention_counts import AttentionItem
from nhi.console.request_actor import may

#: What is counted, as the list of tools is narrowed to it.
QUARANTINED, PENDING = "state=quarantined&approve=me", "state=pending&approve=me"


def _who(right: str) -> Callable[[HttpRequest], bool]:
    return lambda request: may(request, right)


def quarantined(actor: Actor) -> QuerySet[Any]:
    """Changed definitions that this person may approve: they have no part in the change."""
    waiting = Tool.objects.filter(state=DefinitionState.QUARANTINED)
    if actor.only_reads or not actor.may("mcp.approve_definition"):
        return waiting.none()
    if actor.is_superuser:
        return waiting
    return reviewers.filter_not_barred(waiting, actor)


def pending(actor: Actor) -> QuerySet[Any]:
    """First definitions, which whoever added the server may approve too."""
    waiting = Tool.objects.filter(state=DefinitionState.PENDING)
    if actor.only_reads or not actor.may("mcp.approve_definition"):
        return waiting.none()
    return waiting if actor.is_superuser else reviewers.filter_not_barred(waiting, actor)


def offline(actor: Actor) -> QuerySet[Any]:
    down = Server.objects.enabled().filter(status=Connection.OFFLINE)
    if actor.only_reads:
        return down.none()
    return down if actor.may("mcp.operate_server") else down.filter(owner_id=actor.id)


navigation.add_sidebar_items(
    SidebarItem(
        "Gateway", "Servers", "dns", "mcp_server_changelist", _who("mcp.view_server"), badge="servers_offline", key="s"
    ),
    SidebarItem(
        "Gateway",
        "Tools",
        "build",
        "mcp_tool_changelist",
        _who("mcp.view_tool"),
        badge="tools_quarantined",
        counted=QUARANTINED,
    ),
    SidebarItem("Gateway", "Budgets", "speed", "mcp_budget_changelist", _who("mcp.view_budget")),
    SidebarItem(
        "Gateway",
        "Breakers",
        "electrical_services",
        "mcp_breaker_changelist",
        _who("mcp.view_breaker"),
        badge="breakers_open",
        also=("mcp_healthreport_changelist",),
    ),
)
attention_counts.add_items(
    AttentionItem(
        "tools_quarantined",
        quarantined,
        "{} tool quarantined",
        "{} tools quarantined",
        "gpp_bad",
        "mcp_tool_changelist",
        QUARANTINED,
    ),
    AttentionItem(
        "tools_pending",
        pending,
        "{} new tool needs approval",
        "{} new tools need approval",
        "rule",
        "mcp_tool_changelist",
        PENDING,
    ),
    AttentionItem(
        "servers_offline",
        offline,
        "{} server offline",
        "{} servers offline",
        "cloud_off",
        "mcp_server_changelist",
        "enabled=True&status=Offline",
    ),
)
event_sentences.add_subject_pages({"server": "mcp_server_hub"})
