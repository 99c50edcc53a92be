"""The console's pages of this app. Importing a module registers what it has."""

from mcp.admin import (
    approvals,
    breakers,
    budgets,
    calls,
    calls_found,
    calls_identity,
    charts,
    charts_first,
    navigation,
    people_rights,
    servers,
    servers_found,
    tools,
)

__all__ = [
    "approvals",
    "breakers",
    "budgets",
    "calls",
    "calls_found",
    "calls_identity",
    "charts",
    "charts_first",
    "navigation",
    "people_rights",
    "servers",
    "servers_found",
    "tools",
]
