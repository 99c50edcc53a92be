"""Turns errors of the HTTP client, expired deadlines and error statuses into upstream faults."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator

import aiohttp
from yarl import URL

from common import egress
from common.egress.request_body import SentFlag
from common.errors import PayloadTooLarge
from mcp.protocol import jsonrpc
from mcp.protocol.errors import FaultCode, UpstreamFailure, UpstreamFault

#: Limits for reading the body of an error response, whose status matters most.
REFUSAL_LIMIT, REFUSAL_SECONDS = 64 << 10, 2.0
#: Connect errors with their own message. The other connect errors use the message of the operating system.
SPECIFIC_CONNECT_ERRORS = (aiohttp.ClientSSLError, aiohttp.ClientConnectorDNSError)
#: The order matters, because some aiohttp errors are instances of several of these classes.
FAULT_BY_ERROR: tuple[tuple[type[Exception] | tuple[type[Exception], ...], FaultCode, str], ...] = (
    (TimeoutError, "timeout", "The server took no connection in time."),
    (aiohttp.ClientSSLError, "unreachable", "No secure connection to the server: its certificate is refused."),
    (aiohttp.ClientConnectorDNSError, "unreachable", "The server's host name is not known."),
    (aiohttp.InvalidURL, "unreachable", "The server's address is no URL."),
    (aiohttp.ClientResponseError, "protocol", "The server does not answer in HTTP."),
    ((aiohttp.ClientError, OSError), "closed", "The server closed the connection before it had answered."),
)


@contextlib.contextmanager
def translate_errors(sent: SentFlag) -> Iterator[None]:
    """Raise errors of the HTTP client as faults."""
    try:
        yield
    except (aiohttp.ClientError, egress.EgressBlocked, OSError, ValueError) as error:
        raise to_fault(error, sent) from error


def to_fault(error: Exception, sent: SentFlag) -> UpstreamFault:
    if isinstance(error, egress.EgressBlocked):
        return UpstreamFault("unreachable", str(error), sent=False)
    if isinstance(error, aiohttp.ClientConnectorError) and not isinstance(error, SPECIFIC_CONNECT_ERRORS):
        return UpstreamFault("unreachable", f"No connection to the server: {error.strerror or error}.", sent=False)
    for kinds, code, detail in FAULT_BY_ERROR:
        if isinstance(error, kinds):
            return UpstreamFault(code, detail, sent=code != "unreachable" and sent.is_set)
    return UpstreamFault("unreachable", "The server's headers cannot be written as HTTP.", sent=False)


@contextlib.asynccontextmanager
async def deadline(seconds: float, sent: SentFlag) -> AsyncIterator[None]:
    """An absolute deadline: received bytes do not extend it.

    A failure before the request itself is sent, for example in the handshake, is a fault without effect."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except UpstreamFault as fault:
        fault.sent = fault.sent and sent.is_set
        raise
    except TimeoutError:
        raise UpstreamFault("timeout", f"The server did not answer within {seconds:g} s.", sent=sent.is_set) from None


async def read_refusal(response: aiohttp.ClientResponse) -> UpstreamFailure:
    """Convert an error response: return the JSON-RPC error in its body, or else a fault with the status."""
    status = response.status
    if status in {401, 403}:
        return UpstreamFault("auth", f"The server refused our credentials ({status}).", sent=False, status=status)
    if 300 <= status < 400:
        destination = _redirect_target(response)
        detail = f"The server answered with a redirect ({status}){destination}, and redirects are not followed."
        return UpstreamFault("http_status", detail, sent=False, status=status)
    failure = await _read_json_error(response)
    if failure is not None:
        return failure
    # A 4xx refuses the request. A 5xx may occur after a part of it took effect.
    detail = f"The server answered with status {status} and no error that the protocol knows."
    return UpstreamFault("http_status", detail, sent=status >= 500, status=status)


def _redirect_target(response: aiohttp.ClientResponse) -> str:
    """Return the redirect target for the message: often the URL lacks only a final slash. A query may hold secrets."""
    try:
        url = response.url.join(URL(response.headers["Location"]))
    except (KeyError, ValueError):
        return ""
    return f" to {str(url.with_query(None).with_fragment(None).with_user(None))[:200]}"


async def _read_json_error(response: aiohttp.ClientResponse) -> UpstreamFailure | None:
    if read_content_type(response) != "application/json":
        return None
    try:
        async with asyncio.timeout(REFUSAL_SECONDS):
            with translate_errors(SentFlag()):
                raw = await egress.read_limited_body(response, REFUSAL_LIMIT)
        message = next(jsonrpc.decode(raw), {})
    except (UpstreamFault, PayloadTooLarge, TimeoutError):
        return None
    if "error" not in message:
        return None
    return jsonrpc.parse_error(message["error"], status=response.status)


def read_content_type(response: aiohttp.ClientResponse) -> str:
    return response.headers.get("Content-Type", "").partition(";")[0].strip().lower()
