"""The interface between the stdio host and the rest of the installation."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from uuid import UUID

from mcp.client.types import ServerTarget
from mcp.stdio_host.server import LaunchSpec


@dataclass(frozen=True)
class HostBackend:
    """Functions that the stdio host needs. Each of them blocks, so the host calls it in a thread."""

    #: Loads the launch configuration of a server; None if it has none.
    launch: Callable[[UUID], LaunchSpec | None]
    #: Loads the revisions of the enabled HTTP servers, by id.
    revisions: Callable[[], Mapping[UUID, int]]
    #: Loads the connection target of an HTTP server.
    target: Callable[[UUID], ServerTarget]
    #: Queues a refresh of a server's tools, which another process runs.
    refresh: Callable[[UUID], None]
