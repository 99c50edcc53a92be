"""What the owner is told by the rest of the installation, and the one thing it tells it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from uuid import UUID

from mcp.client.types import ServerTarget
from mcp.stdio_host.server import LaunchSpec


@dataclass(frozen=True)
class HostBackend:
    """Each of these blocks, so a thread calls it."""

    #: How a server's process is started; None when there is none.
    launch: Callable[[UUID], LaunchSpec | None]
    #: The revisions of the enabled servers over HTTP, by id.
    revisions: Callable[[], Mapping[UUID, int]]
    #: How one of them is reached.
    target: Callable[[UUID], ServerTarget]
    #: Ask for a server's tools to be listed anew, soon and elsewhere.
    refresh: Callable[[UUID], None]
