"""The console's pages of this app. Importing a module registers what it has."""

from mcp.admin import calls_found, navigation, people_rights, servers_found
from mcp.admin.approvals import changelist as approvals
from mcp.admin.calls import changelist as calls
from mcp.admin.calls import identity_tab
from mcp.admin.home import charts, first_steps
from mcp.admin.limits import breakers, budgets
from mcp.admin.servers import changelist as servers
from mcp.admin.tools import changelist as tools

__all__ = [
    "approvals",
    "breakers",
    "budgets",
    "calls",
    "calls_found",
    "charts",
    "first_steps",
    "identity_tab",
    "navigation",
    "people_rights",
    "servers",
    "servers_found",
    "tools",
]
