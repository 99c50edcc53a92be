"""`manage.py mcp_enable NAME`: from here on, its approved tools may be called."""

from typing import Any

from mcp.management.server_commands import SwitchCommand, describe_server, find_server
from mcp.servers import lifecycle
from nhi import actors


class Command(SwitchCommand):
    help = "Enable a server and meet it. A server that does not answer is enabled all the same, and offline."

    def run(self, **options: Any) -> dict[str, Any]:
        done = lifecycle.enable(actor=actors.terminal(), server=find_server(options["name"]), reason=options["reason"])
        return describe_server(done)
