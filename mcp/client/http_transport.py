"""Pools HTTP connections by event loop, server and revision. Each connection uses the era of its server."""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar
from uuid import UUID
from weakref import WeakKeyDictionary

from mcp_types.jsonrpc import UNSUPPORTED_PROTOCOL_VERSION

from common import egress
from common.egress.tracked_body import SentFlag
from mcp.client.connection import UpstreamConnection
from mcp.client.era_probe import EraProbe, ProbeResult
from mcp.client.http_exchange import BackgroundTasks, HttpSender, SessionFactory, deadline
from mcp.client.legacy_connection import LegacyConnection
from mcp.client.modern_connection import ModernConnection
from mcp.client.sse_connection import SseConnection
from mcp.client.types import Era, Handshake, OnChange, OnProgress, ServerTarget
from mcp.protocol import modern
from mcp.protocol.jsonrpc import Message
from mcp.protocol.upstream_errors import UpstreamError, UpstreamFailure

T = TypeVar("T")
#: Minimum interval of probes that follow a refusal typical of another era.
PROBE_INTERVAL_SECONDS = 30.0
ERA_REFUSAL_STATUSES = frozenset({400, 404, 405, 406, 415})


@dataclass
class PooledConnection:
    """A connection to one revision of a server, which concurrent requests share."""

    revision: int
    connection: UpstreamConnection
    #: Monotonic time. A connection built from the remembered era has not been probed.
    probed_at: float = -math.inf
    users: int = 0
    retired: bool = False

    async def use(self, operation: Callable[[UpstreamConnection], Awaitable[T]]) -> T:
        """Run an operation on the connection. A retired connection closes after its last user."""
        self.users += 1
        try:
            return await operation(self.connection)
        finally:
            self.users -= 1
            await self.close_when_idle()

    async def retire(self) -> None:
        self.retired = True
        await self.close_when_idle()

    async def close_when_idle(self) -> None:
        if self.retired and not self.users:
            await self.connection.close()


@dataclass
class _LoopState:
    """Connections and background tasks of one event loop."""

    background_tasks: BackgroundTasks = field(default_factory=BackgroundTasks)
    connections: dict[UUID, PooledConnection] = field(default_factory=dict)
    probing: dict[UUID, asyncio.Lock] = field(default_factory=dict)


class HttpTransport:
    """The transport to servers over Streamable HTTP and HTTP with SSE."""

    def __init__(self, *, session: SessionFactory = egress.open_session) -> None:
        self._open_session = session
        self._loops: WeakKeyDictionary[asyncio.AbstractEventLoop, _LoopState] = WeakKeyDictionary()

    async def handshake(self, target: ServerTarget, *, timeout: float) -> Handshake:
        started = time.perf_counter()
        steps: list[str] = []
        async with deadline(timeout, SentFlag()):
            result = await self._probe(target, steps)
        await self._adopt(target, result.connection)
        return Handshake(
            era=result.connection.era,
            protocol_version=result.protocol_version,
            server_info=result.server_info,
            capabilities=result.capabilities,
            instructions=result.instructions,
            latency_ms=(time.perf_counter() - started) * 1000,
            steps=tuple(steps),
        )

    async def list_tools(self, target: ServerTarget, *, timeout: float) -> list[dict[str, Any]]:
        async with deadline(timeout, SentFlag()):
            return await self._request(target, lambda connection: connection.list_tools())

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
    ) -> dict[str, Any]:
        sent = SentFlag()

        def call(connection: UpstreamConnection) -> Awaitable[Message]:
            return connection.call_tool(
                name, arguments, sent=sent, meta=meta, on_progress=on_progress, input_schema=input_schema
            )

        async with deadline(timeout, sent):
            return await self._request(target, call)

    async def watch(self, target: ServerTarget, on_change: OnChange, *, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._request(target, lambda connection: connection.watch(on_change))
        except TimeoutError:
            return

    async def close(self) -> None:
        state = self._loops.pop(asyncio.get_running_loop(), None)
        if state is None:
            return
        for pooled in state.connections.values():
            await pooled.connection.close()
        await state.background_tasks.close()

    async def _request(self, target: ServerTarget, operation: Callable[[UpstreamConnection], Awaitable[T]]) -> T:
        pooled = self._loop_state().connections.get(target.server_id)
        if pooled is None or pooled.revision != target.revision:
            pooled = await self._connect(target)
        try:
            return await pooled.use(operation)
        except UpstreamFailure as failure:
            replacement = await self._switch_era(target, pooled, failure)
            if replacement is None:
                raise
        return await replacement.use(operation)

    def _loop_state(self) -> _LoopState:
        loop = asyncio.get_running_loop()
        state = self._loops.get(loop)
        if state is None:
            state = self._loops[loop] = _LoopState()
        return state

    async def _connect(self, target: ServerTarget) -> PooledConnection:
        state = self._loop_state()
        remembered = self._build_remembered_connection(target, state.background_tasks)
        if remembered is not None:
            return await self._replace_connection(target, remembered)
        async with state.probing.setdefault(target.server_id, asyncio.Lock()):
            pooled = state.connections.get(target.server_id)
            if pooled is None or pooled.revision != target.revision:
                async with deadline(target.handshake_timeout, SentFlag()):
                    result = await self._probe(target, [])
                pooled = await self._replace_connection(target, result.connection, time.monotonic())
            return pooled

    def _build_remembered_connection(
        self, target: ServerTarget, background_tasks: BackgroundTasks
    ) -> UpstreamConnection | None:
        """Build a connection in the remembered era, or return None if no era is known. It sends nothing yet."""
        sender, timeout = HttpSender(target, self._open_session), target.handshake_timeout
        era: Era = "sse" if target.transport == "sse" else target.era
        if era == "modern":
            return ModernConnection(
                sender, background_tasks, version=modern.mutual_version([target.protocol_version]) or modern.LATEST
            )
        if era == "legacy":
            return LegacyConnection(sender, background_tasks, handshake_timeout=timeout)
        if era == "sse":
            return SseConnection(sender, background_tasks, handshake_timeout=timeout)
        return None

    async def _probe(self, target: ServerTarget, steps: list[str]) -> ProbeResult:
        probe = EraProbe(
            HttpSender(target, self._open_session), self._loop_state().background_tasks, target.handshake_timeout, steps
        )
        return await probe.run(only_sse=target.transport == "sse")

    async def _adopt(self, target: ServerTarget, connection: UpstreamConnection) -> None:
        """Keep the connection of a handshake, unless an equal one exists, which may have active calls."""
        pooled = self._loop_state().connections.get(target.server_id)
        if pooled is not None and pooled.revision == target.revision and pooled.connection.era == connection.era:
            await connection.close()
        else:
            await self._replace_connection(target, connection)

    async def _replace_connection(
        self, target: ServerTarget, connection: UpstreamConnection, probed_at: float = -math.inf
    ) -> PooledConnection:
        """Use this connection from now on and retire the previous one."""
        state = self._loop_state()
        previous = state.connections.get(target.server_id)
        pooled = state.connections[target.server_id] = PooledConnection(target.revision, connection, probed_at)
        if previous is not None:
            await previous.retire()
        return pooled

    async def _switch_era(
        self, target: ServerTarget, pooled: PooledConnection, failure: UpstreamFailure
    ) -> PooledConnection | None:
        """Return a replacement connection if the failure shows that the server has changed its era, otherwise None."""
        if not _may_be_another_era(pooled.connection.era, failure):
            return None
        if target.transport == "sse" or time.monotonic() - pooled.probed_at < PROBE_INTERVAL_SECONDS:
            return None
        pooled.probed_at = time.monotonic()
        try:
            result = await self._probe(target, [])
        except UpstreamFailure:
            return None
        if result.connection.era == pooled.connection.era:
            await result.connection.close()
            return None
        return await self._replace_connection(target, result.connection, time.monotonic())


def _may_be_another_era(era: Era, failure: UpstreamFailure) -> bool:
    """Whether a server of another era would refuse in this way. Such a refusal had no effect."""
    if not isinstance(failure, UpstreamError):
        return failure.status in ERA_REFUSAL_STATUSES
    if era == "modern" and failure.code in modern.OWN_CODES:
        # Only this one of the codes may come from a server that has returned to the handshake.
        return failure.code == UNSUPPORTED_PROTOCOL_VERSION
    return failure.status in ERA_REFUSAL_STATUSES or failure.code in modern.OWN_CODES
