"""The guarded HTTP client: one aiohttp session per event loop, which connects only to allowed addresses.

The checks are in the connector, which every request, retry and web socket uses. A check in the resolver alone is not
enough: aiohttp does not call the resolver for an address written in a URL, or when it reuses a connection.
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

#: For callers that set no timeout. A caller that expects slow answers must set its own.
DEFAULT_TIMEOUT = aiohttp.ClientTimeout(total=30)
#: Time to get a connection: resolving the name, the handshakes, and waiting when too many connections are open.
CONNECT_TIMEOUT = aiohttp.ClientTimeout(connect=10, sock_connect=5)
MAX_CONNECTIONS, MAX_CONNECTIONS_PER_HOST = 1024, 256
#: Seconds for which an idle connection is reused. Many servers, uvicorn and Node among them, close one after five. If a
#: request is sent while the server closes, nobody knows whether it was read; so the client must close first.
KEEPALIVE_SECONDS = 4.0


class GuardedConnector(aiohttp.TCPConnector):
    """An aiohttp connector that connects only to addresses which the egress rules allow.

    It checks the URL before it connects and the address of the peer afterwards, and accepts neither a proxy nor
    unverified TLS.
    """

    async def connect(
        self, req: aiohttp.ClientRequest, traces: list[Trace], timeout: aiohttp.ClientTimeout
    ) -> Connection:
        if problem := urls.find_origin_problem(req.url):
            raise EgressBlocked(problem)
        if req.proxy is not None:
            raise EgressBlocked("Gatehouse calls through no proxy.")
        if req.ssl is False:
            raise EgressBlocked("Gatehouse calls nobody whose certificate it does not verify.")
        effective_timeout = timeout if timeout.connect or timeout.sock_connect else CONNECT_TIMEOUT
        return await super().connect(req, traces, effective_timeout)

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


# aiohttp advises against subclasses because their names could conflict with its own. This subclass adds no names.
with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)

    class GuardedSession(aiohttp.ClientSession):
        async def _request(
            self, method: str, str_or_url: aiohttp.typedefs.StrOrURL, **options: Any
        ) -> aiohttp.ClientResponse:
            if problem := urls.find_url_problem(str(str_or_url)):
                raise EgressBlocked(problem)
            options["allow_redirects"] = False
            return await super()._request(method, str_or_url, **options)


class _SessionsByLoop:
    """The open sessions by event loop. A forked child starts with none: it must not use or close its parent's."""

    def __init__(self) -> None:
        self.by_loop: dict[asyncio.AbstractEventLoop, GuardedSession] = {}
        self.inherited: list[dict[asyncio.AbstractEventLoop, GuardedSession]] = []
        os.register_at_fork(after_in_child=self._set_aside_after_fork)

    def _set_aside_after_fork(self) -> None:
        # The references are kept: garbage collection would close connections in the selector that the parent uses.
        self.inherited.append(self.by_loop)
        self.by_loop = {}


_sessions = _SessionsByLoop()


def open_session() -> aiohttp.ClientSession:
    """Return the guarded session of the running event loop; open it if there is none."""
    loop = asyncio.get_running_loop()
    session = _sessions.by_loop.get(loop)
    if session is None or session.closed:
        session = _sessions.by_loop[loop] = _create_session()
    return session


async def close_session() -> None:
    """Close the session of the running event loop and its connections. The next request opens a new session."""
    session = _sessions.by_loop.pop(asyncio.get_running_loop(), None)
    if session is not None:
        await session.close()


async def read_limited_body(response: aiohttp.ClientResponse, limit: int) -> bytes:
    """Read the whole body; raise PayloadTooLarge if it has more than `limit` bytes after decompression."""
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
