"""A server's row as what reaches it: with its secrets filled in, for one revision of its configuration."""

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import cast
from uuid import UUID

from mcp.choices import Transport
from mcp.client.types import Era, ServerTarget, TransportName
from mcp.models import Server
from mcp.servers import secrets

MAX_CACHED = 512


@dataclass(frozen=True)
class LaunchConfig:
    """How a server's process is started."""

    argv: tuple[str, ...]
    env: dict[str, str] = field(repr=False)
    revision: int = 0
    enabled: bool = False
    name: str = ""


@dataclass(frozen=True)
class ResolvedServer:
    """A target, and the secret values that must not be seen in anything that comes back from it."""

    target: ServerTarget
    secret_values: tuple[str, ...] = field(repr=False, default=())


def load_launch(server_id: UUID) -> LaunchConfig | None:
    """None for a server that is not there or is no process of ours."""
    server = Server.objects.filter(pk=server_id, transport=Transport.STDIO).first()
    if server is None:
        return None
    known = secrets.open_secrets(server)
    env = {name: secrets.fill_references(value, known) for name, value in server.env.items()}
    return LaunchConfig((server.command, *server.args), env, server.revision, server.enabled, server.name)


def load_http_revisions() -> dict[UUID, int]:
    """Of the enabled servers that are no process of ours, by id."""
    rows = Server.objects.enabled().exclude(transport=Transport.STDIO)
    return dict(rows.values_list("pk", "revision"))


def load_target(server_id: UUID) -> ServerTarget:
    return resolve_server(Server.objects.get(pk=server_id)).target


def resolve_server(server: Server) -> ResolvedServer:
    known = secrets.open_secrets(server)
    headers = tuple((name, secrets.fill_references(value, known)) for name, value in server.headers.items())
    target = ServerTarget(
        server_id=server.pk,
        name=server.name,
        revision=server.revision,
        transport=cast("TransportName", server.transport),
        base_url=server.base_url,
        headers=headers,
        era=cast("Era", server.era),
        protocol_version=server.protocol_version,
    )
    return ResolvedServer(target, tuple(known.values()))


class TargetCache:
    """What this process has reached before, by server and revision: a changed server is another entry."""

    def __init__(self) -> None:
        self._targets: OrderedDict[tuple[UUID, int, str], ResolvedServer] = OrderedDict()

    def find(self, server_id: UUID, revision: int, era: str) -> ResolvedServer | None:
        return self._targets.get((server_id, revision, era))

    def load(self, server_id: UUID) -> ResolvedServer:
        """Read it, with whatever revision it has by now."""
        server = Server.objects.get(pk=server_id)
        found = resolve_server(server)
        self._targets[server.pk, server.revision, server.era] = found
        while len(self._targets) > MAX_CACHED:
            self._targets.popitem(last=False)
        return found


target_cache = TargetCache()
