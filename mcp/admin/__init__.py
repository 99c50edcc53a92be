"""The console's pages of this app. Importing a module registers what it has."""

from mcp.admin import calls, calls_found

__all__ = ["calls", "calls_found"]
