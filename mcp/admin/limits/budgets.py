"""Budgets: how much may be called, how much of that is used now, and when it comes back."""

from datetime import UTC, datetime, timedelta
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import URLPattern, path
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from common.console import badges
from common.console.lists import Bulk, Column, Preset, choice_filter
from common.console.pages import Control, link, link_if_any
from common.templatetags.console import badge, when
from mcp.admin.limits import budget_dialogs
from mcp.admin.limits.budget_usage import Line, lines_of, refused_today
from mcp.choices import BudgetScope
from mcp.limits import budgets
from mcp.models import Budget
from nhi.console import columns
from nhi.console.base import VisibleRowsAdmin
from nhi.console.request_actor import actor_of, may_change
from nhi.models import Identity, ToolPermission

Rows = QuerySet[Any]
#: Where the page of what a budget is about stands, by scope.
PAGES = {
    BudgetScope.SERVER: "mcp_server_hub",
    BudgetScope.TOOL: "mcp_tool_hub",
    BudgetScope.AGENT: "nhi_identity_hub",
    BudgetScope.GRANT: "nhi_toolpermission_page",
}


def _target(row: Any) -> SafeString:
    url = link_if_any(PAGES[BudgetScope(row.scope)], row.target_id)
    return format_html('<a href="{}">{}</a>', url, row.target_name) if url else format_html("{}", row.target_name)


def _limits(row: Any) -> SafeString:
    return format_html_join(" ", '<span class="gh-count">{}</span>', ((line.limit_words,) for line in row.lines))


def _limits_text(row: Any) -> str:
    return ", ".join(line.limit_words for line in row.lines)


def _used(row: Any) -> SafeString:
    counted = [line for line in row.lines if line.is_counted]
    if not counted:
        return format_html('<span class="gh-subtle">{}</span>', "not counted")
    return format_html_join("", "{}", ((_bar(line),) for line in counted))


def _bar(line: Line) -> SafeString:
    return format_html(
        '<span class="gh-used"><progress class="gh-bar gh-bar--{}" max="100" value="{}" aria-label="{}"></progress>'
        " <span>{}</span></span>",
        line.tone, line.percent, line.used_words, line.used_words,
    )  # fmt: skip


def _used_text(row: Any) -> str:
    return ", ".join(line.used_words for line in row.lines if line.is_counted)


def _resets(row: Any) -> SafeString:
    kinds = {line.kind for line in row.lines}
    if "daily_quota" in kinds:
        return when(midnight(), "both")
    return format_html("{}", "as the hour rolls on" if "calls_per_hour" in kinds else "all the time")


def midnight() -> datetime:
    """When a day's quota begins anew: days are UTC's."""
    today = timezone.now().astimezone(UTC)
    return (today + timedelta(days=1)).replace(hour=0, minute=0, second=0, microsecond=0)


def _verbs(row: Any) -> SafeString:
    return format_html_join(
        " ",
        '<a class="gh-btn gh-btn--small" href="{}" data-dialog>{}<span class="gh-hidden"> the budget of {}</span></a>',
        ((link(f"mcp_budget_{page}", row.pk), label, row) for page, label in row.verbs),
    )


@admin.register(Budget)
class BudgetAdmin(VisibleRowsAdmin):
    title = "Budgets"
    lead = "How much may be called of a server or a tool, by an agent, or through a grant. All that apply hold."
    template = "admin/mcp/budgets/list.html"
    view_right = "mcp.view_budget"
    columns = (
        Column("Of", _target, lambda row: row.target_name, sort="target_name", narrow=True),
        columns.state(
            "Scope",
            lambda row: badges.find("mcp.BudgetScope", row.scope),
            lambda row: badge(row.scope, "mcp.BudgetScope"),
            sort="scope",
            narrow=False,
        ),
        Column("Limits", _limits, _limits_text),
        Column("Used now", _used, _used_text, narrow=True),
        Column("Comes back", _resets, lambda _row: ""),
        columns.plain("Refused today", lambda row: row.refused),
        Column("Change", _verbs, lambda _row: ""),
    )
    filters = (choice_filter("scope", "Scope", "scope", BudgetScope.choices),)
    search = ("target_name__icontains",)
    search_words = "Server, tool, agent"
    order = ("scope", "target_name", "id")
    presets = (
        Preset("All"),
        Preset("Servers", "scope=server"),
        Preset("Tools", "scope=tool"),
        Preset("Agents", "scope=agent"),
        Preset("Grants", "scope=grant"),
    )
    bulk: tuple[Bulk, ...] = ()
    empty_title = "No budget yet"
    empty_words = "Without one, an agent calls what it may as often as it likes."
    empty_icon = "speed"
    api_path = "/api/nhi/mcp/budgets"

    def visible(self, request: HttpRequest) -> Rows:
        """All for who reads budgets; for others those of the identities they manage."""
        rows: Rows = Budget.objects.all()
        actor = actor_of(request)
        return rows if actor.may(self.view_right) else rows.filter(target_id__in=Identity.objects.managed_by(actor))

    def prepare(self, request: HttpRequest, rows: list[Any]) -> None:
        used, refused, hourly = budgets.load_usage(rows), refused_today(rows), granted(rows)
        verbs = [
            (page, label)
            for page, label, right in (("change", "Change", "change"), ("remove", "Remove", "delete"))
            if may_change(request, f"mcp.{right}_budget")
        ]
        for row in rows:
            row.lines = lines_of(row, used[row.pk], hourly=hourly.get(row.target_id))
            row.refused, row.verbs = refused.get(row.pk, 0), verbs

    def controls(self, request: HttpRequest) -> list[Control]:
        return [Control("Set a budget", link("mcp_budget_add"), "add")] if may_change(request, "mcp.add_budget") else []

    def pages(self) -> list[URLPattern]:
        return [
            path("add/", budget_dialogs.Add.as_view(), name="mcp_budget_add"),
            path("<uuid:pk>/change/", budget_dialogs.Change.as_view(), name="mcp_budget_change"),
            path("<uuid:pk>/remove/", budget_dialogs.Remove.as_view(), name="mcp_budget_remove"),
        ]


def granted(rows: list[Any]) -> dict[Any, int]:
    """What grants themselves say of calls per hour: the lower of both holds."""
    ids = [row.target_id for row in rows if row.scope == BudgetScope.GRANT]
    if not ids:
        return {}
    said = ToolPermission.objects.filter(pk__in=ids, max_calls_per_hour__isnull=False)
    return {pk: hourly for pk, hourly in said.values_list("pk", "max_calls_per_hour") if hourly is not None}
