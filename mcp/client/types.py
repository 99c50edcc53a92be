"""What the transports are told of a server, and what they say of it."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol
from uuid import UUID

TransportName = Literal["http", "sse", "stdio"]
Era = Literal["", "modern", "legacy", "sse"]
#: Told of each step forward: `progress`, perhaps `total` and `message`.
OnProgress = Callable[[dict[str, Any]], Awaitable[None]]
#: Told that a server's list of tools is another than before.
OnChange = Callable[[], Awaitable[None]]


@dataclass(frozen=True)
class ServerTarget:
    """A server as it is to be reached now; another revision is another way to it."""

    server_id: UUID
    name: str
    revision: int
    transport: TransportName
    base_url: str = ""
    #: Ours for this server, credentials among them; never anything of a caller's.
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    #: As it was found the last time; it may have changed since.
    era: Era = ""
    protocol_version: str = ""
    handshake_timeout: float = 10


@dataclass(frozen=True)
class Handshake:
    """What a server said of itself, and how it was found out."""

    era: Era
    protocol_version: str
    server_info: dict[str, Any]
    capabilities: dict[str, Any]
    instructions: str
    latency_ms: float
    #: What was sent and what came, a line each, for whoever looks for the reason. Redacted before it is shown.
    steps: tuple[str, ...] = ()


class UpstreamTransport(Protocol):
    """A way to servers; the gateway knows no more of one than this."""

    async def handshake(self, target: ServerTarget, *, timeout: float) -> Handshake: ...

    async def list_tools(self, target: ServerTarget, *, timeout: float) -> list[dict[str, Any]]: ...

    async def call_tool(
        self,
        target: ServerTarget,
        name: str,
        arguments: dict[str, Any],
        *,
        timeout: float,
        meta: dict[str, Any] | None = None,
        on_progress: OnProgress | None = None,
        input_schema: dict[str, Any] | None = None,
    ) -> dict[str, Any]: ...

    async def close(self) -> None:
        """Let go of this loop's connections."""
        ...
