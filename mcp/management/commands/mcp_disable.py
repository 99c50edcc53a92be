"""`manage.py mcp_disable NAME`: from here on, nothing of the server may be called."""

from typing import Any

from mcp.management.server_commands import SwitchCommand, describe_server, find_server
from mcp.servers import lifecycle
from nhi import actors


class Command(SwitchCommand):
    help = "Disable a server: calls of its tools are refused, those under way finish."

    def run(self, **options: Any) -> dict[str, Any]:
        done = lifecycle.disable(actor=actors.terminal(), server=find_server(options["name"]), reason=options["reason"])
        return describe_server(done)
