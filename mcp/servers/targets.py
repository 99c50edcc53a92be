"""A server's row as what reaches it: with its secrets filled in, for one revision of its configuration."""

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import cast
from uuid import UUID

from mcp.choices import Transport
from mcp.client.types import Era, Target, TransportName
from mcp.models import Server
from mcp.servers import secrets

MOST_KEPT = 512


@dataclass(frozen=True)
class Launch:
    """How a server's process is started."""

    argv: tuple[str, ...]
    env: dict[str, str] = field(repr=False)
    revision: int = 0
    enabled: bool = False
    name: str = ""


@dataclass(frozen=True)
class Reach:
    """A target, and the secret values that must not be seen in anything that comes back from it."""

    target: Target
    known_values: tuple[str, ...] = field(repr=False, default=())


def launch_of(server_id: UUID) -> Launch | None:
    """None for a server that is not there or is no process of ours."""
    server = Server.objects.filter(pk=server_id, transport=Transport.STDIO).first()
    if server is None:
        return None
    known = secrets.values(server)
    env = {name: secrets.fill(value, known) for name, value in server.env.items()}
    return Launch((server.command, *server.args), env, server.revision, server.enabled, server.name)


def revisions_over_http() -> dict[UUID, int]:
    """Of the enabled servers that are no process of ours, by id."""
    rows = Server.objects.enabled().exclude(transport=Transport.STDIO)
    return dict(rows.values_list("pk", "revision"))


def target_of(server_id: UUID) -> Target:
    return reach(Server.objects.get(pk=server_id)).target


def reach(server: Server) -> Reach:
    known = secrets.values(server)
    headers = tuple((name, secrets.fill(value, known)) for name, value in server.headers.items())
    target = Target(
        server_id=server.pk,
        name=server.name,
        revision=server.revision,
        transport=cast("TransportName", server.transport),
        base_url=server.base_url,
        headers=headers,
        era=cast("Era", server.era),
        protocol_version=server.protocol_version,
    )
    return Reach(target, tuple(known.values()))


class Kept:
    """What this process has reached before, by server and revision: a changed server is another entry."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[UUID, int, str], Reach] = OrderedDict()

    def find(self, server_id: UUID, revision: int, era: str) -> Reach | None:
        return self._kept.get((server_id, revision, era))

    def load(self, server_id: UUID) -> Reach:
        """Read it, with whatever revision it has by now."""
        server = Server.objects.get(pk=server_id)
        found = reach(server)
        self._kept[server.pk, server.revision, server.era] = found
        while len(self._kept) > MOST_KEPT:
            self._kept.popitem(last=False)
        return found


kept = Kept()
