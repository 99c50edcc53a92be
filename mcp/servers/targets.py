"""Resolves a server's row to a connection target with its secrets filled in, and caches it by revision."""

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
    """The command and environment of a server's process."""

    argv: tuple[str, ...]
    env: dict[str, str] = field(repr=False)
    revision: int = 0
    enabled: bool = False
    name: str = ""


@dataclass(frozen=True)
class ResolvedServer:
    """How to connect to a server, with its secrets filled in, and the secret values to redact from its answers."""

    target: ServerTarget
    secret_values: tuple[str, ...] = field(repr=False, default=())


def load_launch(server_id: UUID) -> LaunchConfig | None:
    """Return the launch configuration, or None if the server does not exist or is not a stdio server."""
    server = Server.objects.filter(pk=server_id, transport=Transport.STDIO).first()
    if server is None:
        return None
    secret_values = secrets.open_secrets(server)
    env = {name: secrets.fill_references(value, secret_values) for name, value in server.env.items()}
    return LaunchConfig((server.command, *server.args), env, server.revision, server.enabled, server.name)


def load_http_revisions() -> dict[UUID, int]:
    """Return the revisions of the enabled servers that are not stdio servers, by id."""
    rows = Server.objects.enabled().exclude(transport=Transport.STDIO)
    return dict(rows.values_list("pk", "revision"))


def load_target(server_id: UUID) -> ServerTarget:
    return resolve_server(Server.objects.get(pk=server_id)).target


def resolve_server(server: Server) -> ResolvedServer:
    secret_values = secrets.open_secrets(server)
    headers = tuple((name, secrets.fill_references(value, secret_values)) for name, value in server.headers.items())
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
    return ResolvedServer(target, tuple(secret_values.values()))


class TargetCache:
    """Targets resolved by this process, by server, revision and era. A changed server gets a new entry."""

    def __init__(self) -> None:
        self._targets: OrderedDict[tuple[UUID, int, str], ResolvedServer] = OrderedDict()

    def find(self, server_id: UUID, revision: int, era: str) -> ResolvedServer | None:
        return self._targets.get((server_id, revision, era))

    def load(self, server_id: UUID) -> ResolvedServer:
        """Resolve the server in its current revision and cache the result."""
        server = Server.objects.get(pk=server_id)
        resolved = resolve_server(server)
        self._targets[server.pk, server.revision, server.era] = resolved
        while len(self._targets) > MAX_CACHED:
            self._targets.popitem(last=False)
        return resolved


target_cache = TargetCache()
