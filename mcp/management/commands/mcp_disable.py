"""`manage.py mcp_disable NAME`: from here on, nothing of the server may be called."""

from typing import Any

from mcp.management.server_commands import SwitchCommand, about, named
from mcp.servers import lifecycle
from nhi import actors


class Command(SwitchCommand):
    help = "Disable a server: calls of its tools are refused, those under way finish."

    def run(self, **options: Any) -> dict[str, Any]:
        done = lifecycle.disable(actor=actors.terminal(), server=named(options["name"]), reason=options["reason"])
        return about(done)
