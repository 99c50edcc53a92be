"""Listens to HTTP servers for changed tool lists, and debounces the refreshes of HTTP and stdio servers.

Stdio servers announce changes on their own channels, so nothing listens to them here.
"""

import asyncio
import logging
import math
import time
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Literal
from uuid import UUID

from mcp.client import transports
from mcp.client.types import Handshake, ServerTarget
from mcp.protocol.upstream_errors import UpstreamError, UpstreamFailure, UpstreamFault

log = logging.getLogger(__name__)
#: Changes within the first delay count as one. The delay doubles with repeated changes, so that a server which
#: announces a change at each listing is listed no more often than the schedule does.
FIRST_DEBOUNCE_SECONDS, MAX_DEBOUNCE_SECONDS = 2.0, 60.0
#: Without a change for this long after a refresh, the delay starts again at its first value.
CALM_SECONDS = 15.0


class ChangeDebouncer:
    """Combines change notifications of servers. The refresh function may block, so it runs in a thread of its own."""

    def __init__(self, refresh: Callable[[UUID], None]) -> None:
        self._refresh = refresh
        self._thread = ThreadPoolExecutor(1, "news")
        self._waiting: dict[UUID, asyncio.Task[None]] = {}
        #: The time of each server's last refresh, and the delay before it.
        self._forwarded: dict[UUID, tuple[float, float]] = {}

    def notify(self, server_id: UUID) -> None:
        if server_id not in self._waiting:
            self._waiting[server_id] = asyncio.create_task(self._forward(server_id))

    async def close(self) -> None:
        """Discard waiting notifications. The scheduled refresh finds these changes."""
        for task in self._waiting.values():
            task.cancel()
        await asyncio.gather(*self._waiting.values(), return_exceptions=True)
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _forward(self, server_id: UUID) -> None:
        wait = self._find_wait(server_id)
        try:
            await asyncio.sleep(wait)
        finally:
            # A later change needs a refresh of its own.
            del self._waiting[server_id]
        self._forwarded[server_id] = (time.monotonic(), wait)
        try:
            await asyncio.get_running_loop().run_in_executor(self._thread, self._refresh, server_id)
        except Exception as error:
            log.warning("No refresh of %s was asked for (%s).", server_id, type(error).__name__)

    def _find_wait(self, server_id: UUID) -> float:
        at, last_wait = self._forwarded.get(server_id, (-math.inf, 0.0))
        if time.monotonic() - at > CALM_SECONDS:
            return FIRST_DEBOUNCE_SECONDS
        return min(last_wait * 2, MAX_DEBOUNCE_SECONDS)


#: Between two reads of the list of servers.
REVISION_CHECK_SECONDS = 10.0
HANDSHAKE_SECONDS = 10.0
#: Maximum duration of one connection, so that a dead connection is noticed.
LISTEN_SECONDS = 900.0
#: The delay between attempts doubles, until a connection has lasted `STABLE_SECONDS`.
FIRST_RETRY_SECONDS, MAX_RETRY_SECONDS, STABLE_SECONDS = 1.0, 60.0, 30.0
#: For servers that announce no changes.
SILENT_RETRY_SECONDS = 600.0
#: Fault codes and HTTP statuses that may be temporary.
TRANSIENT_FAULTS, BUSY_STATUSES = frozenset({"unreachable", "timeout", "closed"}), frozenset({429, 500, 502, 503, 504})
#: How listening ended: the server announces no changes, answered 404, or the connection ended.
ListenEnd = Literal["silent", "missing", "ended"]


class HttpChangeListener:
    """Listens to HTTP servers. One callback returns their revisions, or None if unknown; the other loads a target."""

    def __init__(
        self,
        load_revisions: Callable[[], Awaitable[Mapping[UUID, int] | None]],
        load_target: Callable[[UUID], Awaitable[ServerTarget]],
        debouncer: ChangeDebouncer,
    ) -> None:
        self._load_revisions = load_revisions
        self._load_target = load_target
        self._debouncer = debouncer
        self._tasks: dict[UUID, tuple[int, asyncio.Task[None]]] = {}

    async def run(self) -> None:
        """Listen until the task is cancelled."""
        try:
            while True:
                revisions = await self._load_revisions()
                if revisions is not None:
                    self._sync_tasks(revisions)
                await asyncio.sleep(REVISION_CHECK_SECONDS)
        finally:
            for server_id in list(self._tasks):
                self._stop_task(server_id)

    def _sync_tasks(self, revisions: Mapping[UUID, int]) -> None:
        for server_id, (revision, _) in list(self._tasks.items()):
            if revisions.get(server_id) != revision:
                self._stop_task(server_id)
        for server_id in revisions.keys() - self._tasks.keys():
            self._tasks[server_id] = (revisions[server_id], asyncio.create_task(self._listen_forever(server_id)))

    def _stop_task(self, server_id: UUID) -> None:
        _, task = self._tasks.pop(server_id)
        task.cancel()

    async def _listen_forever(self, server_id: UUID) -> None:
        wait, previous_end = 0.0, ""
        while True:
            started_at = time.monotonic()
            end = await self._try_listen(server_id)
            was_stable = time.monotonic() - started_at > STABLE_SECONDS
            wait = FIRST_RETRY_SECONDS if was_stable else min(max(wait * 2, FIRST_RETRY_SECONDS), MAX_RETRY_SECONDS)
            # A single 404 may come from an expired session, which the client has dropped by now.
            is_silent = end == "silent" or previous_end == end == "missing"
            await asyncio.sleep(SILENT_RETRY_SECONDS if is_silent else wait)
            previous_end = end

    async def _try_listen(self, server_id: UUID) -> ListenEnd:
        try:
            return await self._listen(await self._load_target(server_id))
        except UpstreamFailure as failure:
            log.info("Nothing is heard of server %s (%s).", server_id, _describe_code(failure))
            return _classify_end(failure)
        except Exception as error:  # row deleted, secret missing or database unavailable
            log.warning("Server %s is not listened to (%s).", server_id, type(error).__name__)
            return "ended"

    async def _listen(self, target: ServerTarget) -> ListenEnd:
        handshake = await transports.handshake(target, timeout=HANDSHAKE_SECONDS)
        if not _announces_changes(handshake):
            return "silent"

        async def report_change() -> None:
            self._debouncer.notify(target.server_id)

        # The tools may have changed before this connection.
        await report_change()
        negotiated_target = replace(target, era=handshake.era, protocol_version=handshake.protocol_version)
        await transports.watch_changes(negotiated_target, report_change, seconds=LISTEN_SECONDS)
        return "ended"


def _announces_changes(handshake: Handshake) -> bool:
    tools = handshake.capabilities.get("tools")
    return isinstance(tools, dict) and tools.get("listChanged") is True


def _classify_end(failure: UpstreamFailure) -> ListenEnd:
    if failure.status == 404:
        return "missing"
    is_transient = isinstance(failure, UpstreamFault) and failure.code in TRANSIENT_FAULTS
    return "ended" if is_transient or failure.status in BUSY_STATUSES else "silent"


def _describe_code(failure: UpstreamFailure) -> str:
    """Describe a failure without the server's text, which may hold secrets."""
    if isinstance(failure, UpstreamError):
        return f"error {failure.code}"
    return f"{failure.code}, status {failure.status}" if isinstance(failure, UpstreamFault) else ""
