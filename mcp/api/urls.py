"""The gateway's paths below `/api/nhi/`, and those that are below `/mcp/` too. No slash at the end."""

from django.urls import path, register_converter

from common.api import path_converters  # noqa: F401 - its converter registers itself
from mcp.api import approvals, calls, invocations, limits, servers, tools


class Name:
    """A tool's name: some have a slash in them."""

    regex = "[^\n]{1,400}"

    def to_python(self, value: str) -> str:
        return value

    def to_url(self, value: str) -> str:
        return value


register_converter(Name, "name")

SERVER, TOOL, BUDGET = "mcp/servers/<id:server_id>", "mcp/tools/<id:tool_id>", "mcp/budgets/<id:budget_id>"
CALL, APPROVAL = "mcp/tools/<name:name>/call", "approvals/<id:approval_id>"

urlpatterns = [
    path("mcp/servers", servers.Servers.as_view()),
    path(SERVER, servers.OneServer.as_view()),
    path(f"{SERVER}/test", servers.Test.as_view()),
    path(f"{SERVER}/refresh", servers.Refresh.as_view()),
    path(f"{SERVER}/enable", servers.Enable.as_view()),
    path(f"{SERVER}/disable", servers.Disable.as_view()),
    path("mcp/tools", tools.Tools.as_view()),
    path(TOOL, tools.OneTool.as_view()),
    path(f"{TOOL}/approve", tools.Approve.as_view()),
    path(CALL, calls.CallTool.as_view()),
    path("mcp/calls/<id:call_id>", calls.OneCall.as_view()),
    path("mcp/invocations", invocations.Invocations.as_view()),
    path("mcp/invocations/<id:call_id>", invocations.OneInvocation.as_view()),
    path("mcp/budgets", limits.Budgets.as_view()),
    path(BUDGET, limits.OneBudget.as_view()),
    path("mcp/breakers", limits.Breakers.as_view()),
    path("mcp/breakers/<path:service_name>/reset", limits.ResetBreaker.as_view()),
    path("mcp/health-reports", servers.HealthReports.as_view()),
    path("approvals", approvals.Approvals.as_view()),
    path(APPROVAL, approvals.OneApproval.as_view()),
    path(f"{APPROVAL}/approve", approvals.Approve.as_view()),
    path(f"{APPROVAL}/refuse", approvals.Refuse.as_view()),
]
#: The same at another place; the description names each of them once.
bare = [
    path("mcp/tools", tools.Tools.as_view(schema=None)),
    path(CALL, calls.CallTool.as_view(schema=None)),
    path("mcp/calls/<id:call_id>", calls.OneCall.as_view(schema=None)),
]
