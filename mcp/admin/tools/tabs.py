"""The tabs of one tool, each a page with its own queries."""

from collections import defaultdict
from datetime import timedelta
from typing import Any

from django.db.models import Q
from django.urls import path
from django.utils import timezone

from common.console.pages import link_if_any
from mcp import rights
from mcp.admin.call_statistics import of_tool
from mcp.admin.tools import definition_view
from mcp.admin.tools.hub import Hub
from mcp.choices import BudgetScope
from mcp.limits import budgets
from mcp.models import Budget, Call, ToolDefinition
from nhi.console import event_sentences
from nhi.decisions import capabilities
from nhi.models import InvocationLog, RoleAssignment, RoleCapability, ToolPermission

SHOWN = 50
MOST = 100
DAY, MONTH = timedelta(days=1), timedelta(days=30)


class Definition(Hub):
    tab = "hub"
    template = "admin/mcp/tools/definition.html"

    def context(self) -> dict[str, Any]:
        shown = self.tool.approved or self.tool.current
        sees = rights.sees_configuration(self.actor, self.tool.server)
        return {
            **super().context(),
            "shown": shown,
            "fields": definition_view.fields(shown, with_server=sees) if shown else [],
        }


class Versions(Hub):
    tab = "versions"
    template = "admin/mcp/tools/versions.html"

    def context(self) -> dict[str, Any]:
        rows = ToolDefinition.objects.filter(tool=self.tool).defer("body").order_by("-number")[:SHOWN]
        return {**super().context(), "versions": list(rows)}


class Access(Hub):
    tab = "access"
    template = "admin/mcp/tools/access.html"

    def context(self) -> dict[str, Any]:
        grants = ToolPermission.objects.visible_to(self.actor).live().filter(tool=self.tool.identity)
        return {
            **super().context(),
            "grants": list(grants.select_related("agent").order_by("agent__name")[:MOST]),
            "through_roles": self._through_roles(),
        }

    def _through_roles(self) -> list[dict[str, Any]]:
        """Who holds a role that covers it, by role."""
        capability = self.tool.identity.capability or ""
        patterns: dict[Any, list[str]] = defaultdict(list)
        for role, pattern in RoleCapability.objects.effective().values_list("role_id", "pattern"):
            if capabilities.matches(pattern, capability):
                patterns[role].append(pattern)
        held = RoleAssignment.objects.visible_to(self.actor).live().filter(role__in=list(patterns))
        rows = held.select_related("role", "identity").order_by("role__name", "identity__name")[:MOST]
        return [{"assignment": one, "patterns": patterns[one.role_id]} for one in rows]


class Calls(Hub):
    tab = "calls"
    template = "admin/mcp/tools/calls.html"

    def context(self) -> dict[str, Any]:
        return {
            **super().context(),
            **self._numbers(),
            "calls": self._last(),
            "words": "No call of it in 30 days that you can see.",
            "log": link_if_any("nhi_invocationlog_changelist"),
            "log_query": f"?tool={self.tool.identity.name}",
        }

    def _numbers(self) -> dict[str, Any]:
        if not self.actor.may("nhi.view_invocationlog"):
            return {}
        day = of_tool(self.tool.server.name, self.tool.name, span=DAY)
        return {"numbers": day, "in_flight": Call.objects.filter(tool_id=self.tool.pk).count()}

    def _last(self) -> list[InvocationLog]:
        seen = InvocationLog.objects.visible_to(self.actor).filter(timestamp__gte=timezone.now() - MONTH)
        mine = seen.filter(tool_name=self.tool.server.name, method=self.tool.name)
        return list(mine.order_by("-timestamp", "-id")[:SHOWN])


class OwnBudget(Hub):
    tab = "budget"
    template = "admin/mcp/tools/budget.html"

    def context(self) -> dict[str, Any]:
        own = Q(scope=BudgetScope.TOOL, target_id=self.tool.pk)
        over = Q(scope=BudgetScope.SERVER, target_id=self.tool.server_id)
        found = list(Budget.objects.filter(own | over).order_by("-scope"))
        used = budgets.load_usage(found)
        return {
            **super().context(),
            "budgets": [{"budget": one, "used": used[one.pk]} for one in found],
            "all_budgets": link_if_any("mcp_budget_changelist"),
        }


class Changes(Hub):
    tab = "changes"
    template = "admin/mcp/tools/changes.html"

    def context(self) -> dict[str, Any]:
        return {**super().context(), **event_sentences.changes_page(self.actor, self.tool.pk, self.request.GET)}


URLS = [
    path("<uuid:pk>/", Definition.as_view(), name="mcp_tool_hub"),
    path("<uuid:pk>/versions/", Versions.as_view(), name="mcp_tool_versions"),
    path("<uuid:pk>/access/", Access.as_view(), name="mcp_tool_access"),
    path("<uuid:pk>/calls/", Calls.as_view(), name="mcp_tool_calls"),
    path("<uuid:pk>/budget/", OwnBudget.as_view(), name="mcp_tool_budget"),
    path("<uuid:pk>/changes/", Changes.as_view(), name="mcp_tool_changes"),
]
