"""`manage.py mcp_list`: every server, and how it is doing."""

from typing import Any

from django.db.models import Count, Q

from common.commands import GatehouseCommand
from mcp.choices import DefinitionState
from mcp.management.server_commands import describe_server
from mcp.models import Server


class Command(GatehouseCommand):
    help = "List the servers: how each is reached and doing, and how many tools it has and how many of them wait."

    def run(self, **_options: Any) -> dict[str, Any]:
        there = Count("tools", filter=~Q(tools__state=DefinitionState.WITHDRAWN))
        waits = Count("tools", filter=Q(tools__state__in=[DefinitionState.PENDING, DefinitionState.QUARANTINED]))
        rows: Any = Server.objects.annotate(tools_there=there, tools_waiting=waits)
        return {
            "servers": [
                {**describe_server(server), "tools": server.tools_there, "waiting": server.tools_waiting}
                for server in rows
            ]
        }
