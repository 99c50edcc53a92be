"""The client itself: a session for each event loop, whose connector lets nothing pass that was not judged.

The judgement is at the connector, through which every request, retry and web socket has to go: aiohttp asks no resolver
for an address written in a URL, and reuses connections without asking anyone.
"""

import asyncio
import os
import warnings
from typing import Any

import aiohttp
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import Connection
from aiohttp.tracing import Trace
from django.conf import settings

from common.egress import resolver, urls
from common.egress.urls import EgressBlocked
from common.errors import PayloadTooLarge

#: For callers who give none. Who knows how long an answer may take says so.
DEFAULT_TIMEOUT = aiohttp.ClientTimeout(total=30)
#: To a connection: its name, its handshakes, and its turn when too many are open.
CONNECT_TIMEOUT = aiohttp.ClientTimeout(connect=10, sock_connect=5)
MAX_CONNECTIONS, MAX_CONNECTIONS_PER_HOST = 1024, 256
#: Seconds that an idle connection is used again. Many servers close one after five, uvicorn and Node among them, and a
#: request that meets their goodbye is lost without anybody knowing whether it was read: so we are the first to let go.
KEEPALIVE_SECONDS = 4.0


class GuardedConnector(aiohttp.TCPConnector):
    async def connect(
        self, req: aiohttp.ClientRequest, traces: list[Trace], timeout: aiohttp.ClientTimeout
    ) -> Connection:
        if said := urls.find_origin_problem(req.url):
            raise EgressBlocked(said)
        if req.proxy is not None:
            raise EgressBlocked("Gatehouse calls through no proxy.")
        if req.ssl is False:
            raise EgressBlocked("Gatehouse calls nobody whose certificate it does not verify.")
        bounded = timeout if timeout.connect or timeout.sock_connect else CONNECT_TIMEOUT
        return await super().connect(req, traces, bounded)

    async def _create_connection(
        self, req: aiohttp.ClientRequest, traces: list[Trace], timeout: aiohttp.ClientTimeout
    ) -> ResponseHandler:
        protocol = await super()._create_connection(req, traces, timeout)
        transport = protocol.transport
        peer = transport and transport.get_extra_info("peername")
        if not transport or not peer:
            protocol.close()
            raise aiohttp.ServerDisconnectedError
        try:
            resolver.refuse_non_public(req.url.raw_host or "", req.url.port or 0, [peer[0]])
        except EgressBlocked:
            transport.abort()
            raise
        return protocol


# aiohttp advises against subclasses because a name of ours could meet one of its own. This one adds none.
with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)

    class GuardedSession(aiohttp.ClientSession):
        async def _request(
            self, method: str, str_or_url: aiohttp.typedefs.StrOrURL, **options: Any
        ) -> aiohttp.ClientResponse:
            if said := urls.find_url_problem(str(str_or_url)):
                raise EgressBlocked(said)
            options["allow_redirects"] = False
            return await super()._request(method, str_or_url, **options)


class _SessionsByLoop:
    """The open sessions by their loop. A child process has none: it must neither use nor close its parent's."""

    def __init__(self) -> None:
        self.by_loop: dict[asyncio.AbstractEventLoop, GuardedSession] = {}
        self.inherited: list[dict[asyncio.AbstractEventLoop, GuardedSession]] = []
        os.register_at_fork(after_in_child=self._set_aside_after_fork)

    def _set_aside_after_fork(self) -> None:
        # Kept, not dropped: their end would reach into the selector that the parent still waits on.
        self.inherited.append(self.by_loop)
        self.by_loop = {}


_sessions = _SessionsByLoop()


def open_session() -> aiohttp.ClientSession:
    """The guarded session of the running event loop, with its connections."""
    loop = asyncio.get_running_loop()
    found = _sessions.by_loop.get(loop)
    if found is None or found.closed:
        found = _sessions.by_loop[loop] = _create_session()
    return found


async def close_session() -> None:
    """End the running loop's session and its connections. The next request starts another."""
    found = _sessions.by_loop.pop(asyncio.get_running_loop(), None)
    if found is not None:
        await found.close()


async def read_limited_body(response: aiohttp.ClientResponse, limit: int) -> bytes:
    """The whole body, unless it is larger, as sent or unpacked, than `limit` bytes."""
    parts, size = [], 0
    async for part in response.content.iter_any():
        parts.append(part)
        size += len(part)
        if size > limit:
            response.close()
            raise PayloadTooLarge(limit)
    return b"".join(parts)


def _create_session() -> GuardedSession:
    for loop in [loop for loop in _sessions.by_loop if loop.is_closed()]:
        del _sessions.by_loop[loop]
    return GuardedSession(
        connector=GuardedConnector(
            resolver=resolver.GuardedResolver(),
            limit=MAX_CONNECTIONS,
            limit_per_host=MAX_CONNECTIONS_PER_HOST,
            keepalive_timeout=KEEPALIVE_SECONDS,
        ),
        cookie_jar=aiohttp.DummyCookieJar(),
        headers={"User-Agent": f"Gatehouse/{settings.VERSION}"},
        timeout=DEFAULT_TIMEOUT,
        trust_env=False,
    )
