"""The console's pages of this app. Importing a module registers what it has."""

from mcp.admin import approvals, calls, calls_found

__all__ = ["approvals", "calls", "calls_found"]
