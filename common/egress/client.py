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
from common.errors import TooLarge

#: For callers who give none. Who knows how long an answer may take says so.
PATIENCE = aiohttp.ClientTimeout(total=30)
#: To a connection: its name, its handshakes, and its turn when too many are open.
CONNECTING = aiohttp.ClientTimeout(connect=10, sock_connect=5)
MOST_CONNECTIONS, MOST_TO_ONE_PLACE = 1024, 256
#: Seconds that an idle connection is used again. Many servers close one after five, uvicorn and Node among them, and a
#: request that meets their goodbye is lost without anybody knowing whether it was read: so we are the first to let go.
KEPT_IDLE = 4.0


class Connector(aiohttp.TCPConnector):
    async def connect(
        self, req: aiohttp.ClientRequest, traces: list[Trace], timeout: aiohttp.ClientTimeout
    ) -> Connection:
        if said := urls.place_problem(req.url):
            raise EgressBlocked(said)
        if req.proxy is not None:
            raise EgressBlocked("Gatehouse calls through no proxy.")
        if req.ssl is False:
            raise EgressBlocked("Gatehouse calls nobody whose certificate it does not verify.")
        bounded = timeout if timeout.connect or timeout.sock_connect else CONNECTING
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
            resolver.refuse_private(req.url.raw_host or "", req.url.port or 0, [peer[0]])
        except EgressBlocked:
            transport.abort()
            raise
        return protocol


# aiohttp advises against subclasses because a name of ours could meet one of its own. This one adds none.
with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)

    class Session(aiohttp.ClientSession):
        async def _request(
            self, method: str, str_or_url: aiohttp.typedefs.StrOrURL, **options: Any
        ) -> aiohttp.ClientResponse:
            if said := urls.problem(str(str_or_url)):
                raise EgressBlocked(said)
            options["allow_redirects"] = False
            return await super()._request(method, str_or_url, **options)


class _Sessions:
    """The open sessions by their loop. A child process has none: it must neither use nor close its parent's."""

    def __init__(self) -> None:
        self.by_loop: dict[asyncio.AbstractEventLoop, Session] = {}
        self.inherited: list[dict[asyncio.AbstractEventLoop, Session]] = []
        os.register_at_fork(after_in_child=self._set_aside)

    def _set_aside(self) -> None:
        # Kept, not dropped: their end would reach into the selector that the parent still waits on.
        self.inherited.append(self.by_loop)
        self.by_loop = {}


_sessions = _Sessions()


def session() -> aiohttp.ClientSession:
    """The guarded session of the running event loop, with its connections."""
    loop = asyncio.get_running_loop()
    found = _sessions.by_loop.get(loop)
    if found is None or found.closed:
        found = _sessions.by_loop[loop] = _open()
    return found


async def close() -> None:
    """End the running loop's session and its connections. The next request starts another."""
    found = _sessions.by_loop.pop(asyncio.get_running_loop(), None)
    if found is not None:
        await found.close()


async def read(response: aiohttp.ClientResponse, limit: int) -> bytes:
    """The whole body, unless it is larger, as sent or unpacked, than `limit` bytes."""
    parts, size = [], 0
    async for part in response.content.iter_any():
        parts.append(part)
        size += len(part)
        if size > limit:
            response.close()
            raise TooLarge(limit)
    return b"".join(parts)


def _open() -> Session:
    for loop in [loop for loop in _sessions.by_loop if loop.is_closed()]:
        del _sessions.by_loop[loop]
    return Session(
        connector=Connector(
            resolver=resolver.Resolver(),
            limit=MOST_CONNECTIONS,
            limit_per_host=MOST_TO_ONE_PLACE,
            keepalive_timeout=KEPT_IDLE,
        ),
        cookie_jar=aiohttp.DummyCookieJar(),
        headers={"User-Agent": f"Gatehouse/{settings.VERSION}"},
        timeout=PATIENCE,
        trust_env=False,
    )
