"""One HTTP exchange with a server: a request goes out, and what is no refusal comes back to be read."""

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
#: Reading has the call's own deadline around it; a host that takes no connection is told from a slow one sooner.
CLIENT_TIMEOUT = aiohttp.ClientTimeout(total=None, connect=10, sock_connect=5)
#: Connections that are found to be given up, one after the other, before a request is given up too.
MAX_ABANDONED_SENDS = 8


class HttpSender:
    """Sends to one server, with the headers that are set for it."""

    def __init__(self, target: ServerTarget, session: SessionFactory) -> None:
        self.url = target.base_url
        self._session = session
        self._headers = CIMultiDict(
            [(name, value) for name, value in target.headers if not is_reserved_header(name)]
            # A packed answer could be a small bomb; the limits count what was sent.
            + [("Accept-Encoding", "identity")]
        )

    async def post(
        self, message: jsonrpc.Message, headers: Mapping[str, str], sent: SentFlag, *, url: str = ""
    ) -> aiohttp.ClientResponse:
        """The answer's head, when it is no refusal. Whoever gets it lets go of it."""
        raw = jsonrpc.encode(message)
        for _ in range(MAX_ABANDONED_SENDS):
            body = TrackedBody(raw, sent)
            try:
                with translate_errors(sent):
                    response = await self._session().post(
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
            response = await self._session().get(
                self.url, headers=self._merge_headers(headers), allow_redirects=False, timeout=CLIENT_TIMEOUT
            )
        return await self._check_status(response)

    async def delete(self, headers: Mapping[str, str]) -> None:
        with translate_errors(SentFlag()):
            response = await self._session().delete(
                self.url, headers=self._merge_headers(headers), allow_redirects=False, timeout=CLIENT_TIMEOUT
            )
        response.close()

    async def notify(self, message: jsonrpc.Message, headers: Mapping[str, str], *, url: str = "") -> None:
        """Send what has no answer."""
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
    """What has come of a stream, or nothing at its end."""
    with translate_errors(sent):
        return await response.content.readany()


async def read_response(response: aiohttp.ClientResponse, limit: int, sent: SentFlag) -> bytes:
    """The whole body, unless it is too long: then no more of it is read."""
    try:
        with translate_errors(sent):
            return await egress.read_limited_body(response, limit)
    except PayloadTooLarge:
        detail = f"The server's answer is longer than {limit >> 20} MiB."
        raise UpstreamFault("too_large", detail, sent=sent.is_set) from None


async def drain_response(response: aiohttp.ClientResponse) -> None:
    """Read what is left, so that the connection can be used again; what has no end soon is closed instead."""
    try:
        async with asyncio.timeout(1):
            left = RESULT_LIMIT
            async for chunk in response.content.iter_any():
                left -= len(chunk)
                if left < 0:
                    return
    except (TimeoutError, aiohttp.ClientError, OSError):
        return
    finally:
        response.close()
