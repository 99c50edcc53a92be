"""Targets, handshakes and the transport interface."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol
from uuid import UUID

TransportName = Literal["http", "sse", "stdio"]
Era = Literal["", "modern", "legacy", "sse"]
#: Called with each progress update: `progress`, and optionally `total` and `message`.
OnProgress = Callable[[dict[str, Any]], Awaitable[None]]
#: Called when the tool list of a server has changed.
OnChange = Callable[[], Awaitable[None]]


@dataclass(frozen=True)
class ServerTarget:
    """How to connect to a server. The revision changes with the connection settings."""

    server_id: UUID
    name: str
    revision: int
    transport: TransportName
    base_url: str = ""
    #: Configured headers for this server, including credentials; never headers of a caller.
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    #: Detected by the last handshake. The server may have changed since.
    era: Era = ""
    protocol_version: str = ""
    handshake_timeout: float = 10


@dataclass(frozen=True)
class Handshake:
    """What a server declared in the handshake, and the steps of the detection."""

    era: Era
    protocol_version: str
    server_info: dict[str, Any]
    capabilities: dict[str, Any]
    instructions: str
    latency_ms: float
    #: Requests and answers, a line each, for troubleshooting. Redacted before display.
    steps: tuple[str, ...] = ()


class UpstreamTransport(Protocol):
    """The interface of a transport to servers, as the gateway uses it."""

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
        """Close the connections of the running event loop."""
        ...
