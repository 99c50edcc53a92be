"""What the commands about servers share: naming one, and letting go of what was open to it."""

from argparse import ArgumentParser
from typing import Any

from common import egress
from common.commands import GatehouseCommand
from common.errors import InvalidInput
from common.executors import background_loop
from mcp.client import transports
from mcp.models import Server


def find_server(name: str) -> Server:
    found: Server | None = Server.objects.select_related("owner").filter(name=name).first()
    if found is None:
        raise InvalidInput.for_field("name", f"There is no server {name!r}.")
    return found


def describe_server(server: Server) -> dict[str, Any]:
    """A server in a terminal: how it is, and why."""
    return {
        "id": server.pk,
        "name": server.name,
        "transport": server.transport,
        "enabled": server.enabled,
        "status": server.status,
        "status_since": server.status_since,
        "status_reason": server.status_reason,
    }


class ServerCommand(GatehouseCommand):
    """About one server, named first, which is met in the course of it."""

    def add_own_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", metavar="NAME")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            super().handle(*args, **options)
        finally:
            background_loop.stop(_close_connections)


async def _close_connections() -> None:
    await transports.close_all()
    await egress.close_session()


class SwitchCommand(ServerCommand):
    """Why is kept on record; at a terminal, that it was done there is a reason."""

    def add_own_arguments(self, parser: ArgumentParser) -> None:
        super().add_own_arguments(parser)
        parser.add_argument("--reason", default="At the terminal")
