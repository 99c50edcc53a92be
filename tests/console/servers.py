"""Where the pages of servers are."""

from mcp.models import Server

LIST = "/admin/mcp/server/"
TABS = ("", "tools/", "health/", "limits/", "secrets/", "calls/", "changes/")


def hub(server: Server, tab: str = "") -> str:
    return f"{LIST}{server.pk}/{tab}"
