"""Sends HTTP requests to a server and returns successful responses for reading."""

import asyncio
from collections.abc import Callable, Mapping

import aiohttp
from multidict import CIMultiDict

from common import egress
from common.egress.request_body import SentFlag, TrackedBody
from common.errors import PayloadTooLarge
from mcp.client.failing import read_refusal, translate_errors
from mcp.client.types import ServerTarget
from mcp.protocol import jsonrpc
from mcp.protocol.errors import UpstreamFault
from mcp.protocol.headers import is_reserved_header

SessionFactory = Callable[[], aiohttp.ClientSession]
RESULT_LIMIT = 16 << 20
#: The deadline of the call limits reading. The connect timeouts detect an unreachable host earlier.
CLIENT_TIMEOUT = aiohttp.ClientTimeout(total=None, connect=10, sock_connect=5)
#: Attempts to send a request. Each uses another connection if the server has already closed the previous one.
MAX_ABANDONED_SENDS = 8


class HttpSender:
    """Sends requests to one server, with the headers configured for it."""

    def __init__(self, target: ServerTarget, session: SessionFactory) -> None:
        self.url = target.base_url
        self._open_session = session
        self._headers = CIMultiDict(
            [(name, value) for name, value in target.headers if not is_reserved_header(name)]
            # No compression: the limits count received bytes, and a compressed answer could expand beyond them.
            + [("Accept-Encoding", "identity")]
        )

    async def post(
        self, message: jsonrpc.Message, headers: Mapping[str, str], sent: SentFlag, *, url: str = ""
    ) -> aiohttp.ClientResponse:
        """Send a message and return the unread response, which the caller closes. Raise on error statuses."""
        raw = jsonrpc.encode(message)
        for _ in range(MAX_ABANDONED_SENDS):
            body = TrackedBody(raw, sent)
            try:
                with translate_errors(sent):
                    response = await self._open_session().post(
                        url or self.url,
                        data=body,
                        headers=self._merge_headers(headers),
                        allow_redirects=False,
                        timeout=CLIENT_TIMEOUT,
                    )
                return await self._check_status(response)
            except UpstreamFault:
                if not body.connection_was_closed:
                    raise
        raise UpstreamFault("closed", "The server hangs up each connection before it can be used.", sent=False)

    async def get(self, headers: Mapping[str, str]) -> aiohttp.ClientResponse:
        with translate_errors(SentFlag()):
            response = await self._open_session().get(
                self.url, headers=self._merge_headers(headers), allow_redirects=False, timeout=CLIENT_TIMEOUT
            )
        return await self._check_status(response)

    async def delete(self, headers: Mapping[str, str]) -> None:
        with translate_errors(SentFlag()):
            response = await self._open_session().delete(
                self.url, headers=self._merge_headers(headers), allow_redirects=False, timeout=CLIENT_TIMEOUT
            )
        response.close()

    async def notify(self, message: jsonrpc.Message, headers: Mapping[str, str], *, url: str = "") -> None:
        """Send a message that has no answer."""
        response = await self.post(message, headers, SentFlag(), url=url)
        await drain_response(response)

    def _merge_headers(self, headers: Mapping[str, str]) -> CIMultiDict[str]:
        merged = CIMultiDict(self._headers)
        merged.update(headers)
        return merged

    async def _check_status(self, response: aiohttp.ClientResponse) -> aiohttp.ClientResponse:
        if 200 <= response.status < 300:
            return response
        try:
            raise await read_refusal(response)
        finally:
            response.close()


async def read_chunk(response: aiohttp.ClientResponse, sent: SentFlag) -> bytes:
    """Read the available bytes of a stream. Return no bytes at its end."""
    with translate_errors(sent):
        return await response.content.readany()


async def read_response(response: aiohttp.ClientResponse, limit: int, sent: SentFlag) -> bytes:
    """Read the whole body. Stop and raise a fault if it exceeds the limit."""
    try:
        with translate_errors(sent):
            return await egress.read_limited_body(response, limit)
    except PayloadTooLarge:
        detail = f"The server's answer is longer than {limit >> 20} MiB."
        raise UpstreamFault("too_large", detail, sent=sent.is_set) from None


async def drain_response(response: aiohttp.ClientResponse) -> None:
    """Read the rest, so that the connection can be reused. Close it if the rest is too long or takes too long."""
    try:
        async with asyncio.timeout(1):
            remaining = RESULT_LIMIT
            async for chunk in response.content.iter_any():
                remaining -= len(chunk)
                if remaining < 0:
                    return
    except (TimeoutError, aiohttp.ClientError, OSError):
        return
    finally:
        response.close()
