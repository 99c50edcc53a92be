"""Servers over HTTP: a connection for each server, revision and event loop, in the era that the server speaks."""

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
from common.egress.request_body import SentFlag
from mcp.client.answering import Errands
from mcp.client.connection import Connection
from mcp.client.era_probe import Found, Probe
from mcp.client.failing import within
from mcp.client.http_sse import EventStream
from mcp.client.legacy import Legacy
from mcp.client.modern_connection import Modern
from mcp.client.sending import Sender, Sessions
from mcp.client.types import Era, Handshake, OnChange, OnProgress, Target
from mcp.protocol import modern
from mcp.protocol.errors import UpstreamError, UpstreamTrouble
from mcp.protocol.jsonrpc import Message

T = TypeVar("T")
#: A refusal that looks like another era leads to a probe at most this often, in seconds.
BETWEEN_PROBES = 30.0
REFUSED = frozenset({400, 404, 405, 406, 415})


@dataclass
class Kept:
    revision: int
    connection: Connection
    #: By the monotonic clock; a connection made from what was remembered has not been probed.
    probed_at: float = -math.inf
    users: int = 0
    retired: bool = False

    async def use(self, ask: Callable[[Connection], Awaitable[T]]) -> T:
        """A connection that was replaced while it was used ends with its last user, not before."""
        self.users += 1
        try:
            return await ask(self.connection)
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
class _Loop:
    """What one event loop holds open."""

    errands: Errands = field(default_factory=Errands)
    kept: dict[UUID, Kept] = field(default_factory=dict)
    probing: dict[UUID, asyncio.Lock] = field(default_factory=dict)


class HttpTransport:
    def __init__(self, *, session: Sessions = egress.open_session) -> None:
        self._session = session
        self._loops: WeakKeyDictionary[asyncio.AbstractEventLoop, _Loop] = WeakKeyDictionary()

    async def handshake(self, target: Target, *, timeout: float) -> Handshake:
        started = time.perf_counter()
        steps: list[str] = []
        async with within(timeout, SentFlag()):
            found = await self._probe(target, steps)
        await self._adopt(target, found.connection)
        return Handshake(
            era=found.connection.era,
            protocol_version=found.protocol_version,
            server_info=found.server_info,
            capabilities=found.capabilities,
            instructions=found.instructions,
            latency_ms=(time.perf_counter() - started) * 1000,
            steps=tuple(steps),
        )

    async def list_tools(self, target: Target, *, timeout: float) -> list[dict[str, Any]]:
        async with within(timeout, SentFlag()):
            return await self._ask(target, lambda connection: connection.list_tools())

    async def call_tool(
        self,
        target: Target,
        name: str,
        arguments: dict[str, Any],
        *,
        timeout: float,
        meta: dict[str, Any] | None = None,
        on_progress: OnProgress | None = None,
        input_schema: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        sent = SentFlag()

        def call(connection: Connection) -> Awaitable[Message]:
            return connection.call_tool(
                name, arguments, sent=sent, meta=meta, on_progress=on_progress, input_schema=input_schema
            )

        async with within(timeout, sent):
            return await self._ask(target, call)

    async def watch(self, target: Target, on_change: OnChange, *, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._ask(target, lambda connection: connection.watch(on_change))
        except TimeoutError:
            return

    async def close(self) -> None:
        loop = self._loops.pop(asyncio.get_running_loop(), None)
        if loop is None:
            return
        for kept in loop.kept.values():
            await kept.connection.close()
        await loop.errands.close()

    async def _ask(self, target: Target, ask: Callable[[Connection], Awaitable[T]]) -> T:
        kept = self._loop().kept.get(target.server_id)
        if kept is None or kept.revision != target.revision:
            kept = await self._connected(target)
        try:
            return await kept.use(ask)
        except UpstreamTrouble as refused:
            other = await self._other_era(target, kept, refused)
            if other is None:
                raise
        return await other.use(ask)

    def _loop(self) -> _Loop:
        running = asyncio.get_running_loop()
        found = self._loops.get(running)
        if found is None:
            found = self._loops[running] = _Loop()
        return found

    async def _connected(self, target: Target) -> Kept:
        loop = self._loop()
        known = self._known(target, loop.errands)
        if known is not None:
            return await self._keep(target, known)
        async with loop.probing.setdefault(target.server_id, asyncio.Lock()):
            kept = loop.kept.get(target.server_id)
            if kept is None or kept.revision != target.revision:
                async with within(target.handshake_timeout, SentFlag()):
                    found = await self._probe(target, [])
                kept = await self._keep(target, found.connection, time.monotonic())
            return kept

    def _known(self, target: Target, errands: Errands) -> Connection | None:
        """A connection in the era that is remembered; it says nothing before it is asked something."""
        sender, patience = Sender(target, self._session), target.handshake_timeout
        era: Era = "sse" if target.transport == "sse" else target.era
        if era == "modern":
            return Modern(sender, errands, version=modern.mutual_version([target.protocol_version]) or modern.LATEST)
        if era == "legacy":
            return Legacy(sender, errands, handshake_timeout=patience)
        if era == "sse":
            return EventStream(sender, errands, handshake_timeout=patience)
        return None

    async def _probe(self, target: Target, steps: list[str]) -> Found:
        probe = Probe(Sender(target, self._session), self._loop().errands, target.handshake_timeout, steps)
        return await probe.run(only_sse=target.transport == "sse")

    async def _adopt(self, target: Target, connection: Connection) -> None:
        """Use what a handshake opened, unless there is such a connection already: calls may be under way on it."""
        kept = self._loop().kept.get(target.server_id)
        if kept is not None and kept.revision == target.revision and kept.connection.era == connection.era:
            await connection.close()
        else:
            await self._keep(target, connection)

    async def _keep(self, target: Target, connection: Connection, probed_at: float = -math.inf) -> Kept:
        """Use this connection from now on, and let go of the one before it."""
        loop = self._loop()
        before = loop.kept.get(target.server_id)
        kept = loop.kept[target.server_id] = Kept(target.revision, connection, probed_at)
        if before is not None:
            await before.retire()
        return kept

    async def _other_era(self, target: Target, kept: Kept, refused: UpstreamTrouble) -> Kept | None:
        """What to use instead, when a refusal came because the server has changed its era."""
        if not _may_be_another_era(kept.connection.era, refused):
            return None
        if target.transport == "sse" or time.monotonic() - kept.probed_at < BETWEEN_PROBES:
            return None
        kept.probed_at = time.monotonic()
        try:
            found = await self._probe(target, [])
        except UpstreamTrouble:
            return None
        if found.connection.era == kept.connection.era:
            await found.connection.close()
            return None
        return await self._keep(target, found.connection, time.monotonic())


def _may_be_another_era(era: Era, refused: UpstreamTrouble) -> bool:
    """Whether a server of another era would refuse so. A refusal in this sense has had no effect."""
    if not isinstance(refused, UpstreamError):
        return refused.status in REFUSED
    if era == "modern" and refused.code in modern.OWN_CODES:
        # Of these, only one may come of a server that has gone back to the handshake.
        return refused.code == UNSUPPORTED_PROTOCOL_VERSION
    return refused.status in REFUSED or refused.code in modern.OWN_CODES
