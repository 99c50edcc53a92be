"""One HTTP exchange with a server: a request goes out, its answer or the right fault comes back."""

import asyncio
import contextlib
import select
from collections.abc import AsyncIterator, Callable, Iterator, Mapping

import aiohttp
from aiohttp.abc import AbstractStreamWriter
from aiohttp.payload import Payload
from multidict import CIMultiDict
from yarl import URL

from common import egress
from common.errors import TooLarge
from mcp.faults import FaultCode, UpstreamFault, UpstreamTrouble
from mcp.upstream.target import Target
from mcp.wire import jsonrpc

Sessions = Callable[[], aiohttp.ClientSession]
RESULT_LIMIT = 16 << 20
#: How much of a refusal is read, and for how long: its status has said most.
REFUSAL_LIMIT, REFUSAL_SECONDS = 64 << 10, 2.0
#: Reading has the call's own deadline around it; a host that takes no connection is told from a slow one sooner.
TIMEOUT = aiohttp.ClientTimeout(total=None, connect=10, sock_connect=5)
#: The other side has closed, as far as the system can tell without reading.
HUNG_UP = getattr(select, "POLLRDHUP", 0)
#: Connections that are found to be given up, one after the other, before a request is given up too.
MOST_GIVEN_UP = 8
#: What would change how the request is framed is not an administrator's to set.
FRAMING = frozenset({"connection", "content-length", "host", "te", "trailer", "transfer-encoding", "upgrade"})


class Sent:
    """Whether a request's bytes began to leave: after that nobody knows what the server did with it."""

    __slots__ = ("yes",)

    def __init__(self) -> None:
        self.yes = False


class _Body(Payload):
    """A body that notes when it goes out, and does not go out to a server that has hung up already.

    A server that ends an idle connection at the moment it is used again would leave a call whose effect nobody knows.
    Its goodbye is mostly here before the loop has looked at it: then nothing is sent, and the call may have another
    connection. The head waits for the body, so until here no byte of the request has left."""

    _autoclose = True
    given_up = False

    def __init__(self, raw: bytes, sent: Sent) -> None:
        super().__init__(raw, content_type="application/json")
        self._size = len(raw)
        self._sent = sent

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        return bytes(self._value).decode(encoding, errors)

    async def write(self, writer: AbstractStreamWriter) -> None:
        await self.write_with_length(writer, None)

    async def write_with_length(self, writer: AbstractStreamWriter, content_length: int | None) -> None:
        if _has_hung_up(writer):
            self.given_up = True
            raise ConnectionResetError
        self._sent.yes = True
        await writer.write(self._value[:content_length])


def _has_hung_up(writer: AbstractStreamWriter) -> bool:
    """Asked of the system, which knows before the event loop. What it may have sent before is of no interest."""
    transport = writer.transport
    number = transport.get_extra_info("socket").fileno() if transport is not None else -1
    if number < 0:
        return True
    asked = select.poll()
    asked.register(number, HUNG_UP)
    return bool(asked.poll(0))


#: Failures to connect that are told apart; of the others the system's own words are said.
NAMED = (aiohttp.ClientSSLError, aiohttp.ClientConnectorDNSError)
#: In this order: aiohttp's errors are of several kinds at once.
FAULTS: tuple[tuple[type[Exception] | tuple[type[Exception], ...], FaultCode, str], ...] = (
    (TimeoutError, "timeout", "The server took no connection in time."),
    (aiohttp.ClientSSLError, "unreachable", "No secure connection to the server: its certificate is refused."),
    (aiohttp.ClientConnectorDNSError, "unreachable", "The server's host name is not known."),
    (aiohttp.InvalidURL, "unreachable", "The server's address is no URL."),
    (aiohttp.ClientResponseError, "protocol", "The server does not answer in HTTP."),
    ((aiohttp.ClientError, OSError), "closed", "The server closed the connection before it had answered."),
)


@contextlib.contextmanager
def translated(sent: Sent) -> Iterator[None]:
    """What the HTTP client raises, as faults."""
    try:
        yield
    except (aiohttp.ClientError, egress.EgressBlocked, OSError, ValueError) as error:
        raise as_fault(error, sent) from error


def as_fault(error: Exception, sent: Sent) -> UpstreamFault:
    if isinstance(error, egress.EgressBlocked):
        return UpstreamFault("unreachable", str(error), sent=False)
    if isinstance(error, aiohttp.ClientConnectorError) and not isinstance(error, NAMED):
        return UpstreamFault("unreachable", f"No connection to the server: {error.strerror or error}.", sent=False)
    for kinds, code, detail in FAULTS:
        if isinstance(error, kinds):
            return UpstreamFault(code, detail, sent=code != "unreachable" and sent.yes)
    return UpstreamFault("unreachable", "The server's headers cannot be written as HTTP.", sent=False)


@contextlib.asynccontextmanager
async def within(seconds: float, sent: Sent) -> AsyncIterator[None]:
    """An absolute deadline: bytes that trickle in do not move it.

    What fails before the request itself has left, a handshake for it say, is a fault without an effect."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except UpstreamFault as fault:
        fault.sent = fault.sent and sent.yes
        raise
    except TimeoutError:
        raise UpstreamFault("timeout", f"The server did not answer within {seconds:g} s.", sent=sent.yes) from None


class Sender:
    """Sends to one server, with the headers that are set for it."""

    def __init__(self, target: Target, session: Sessions) -> None:
        self.url = target.base_url
        self._session = session
        self._headers = CIMultiDict(
            [(name, value) for name, value in target.headers if name.lower() not in FRAMING]
            # A packed answer could be a small bomb; the limits count what was sent.
            + [("Accept-Encoding", "identity")]
        )

    async def post(
        self, message: jsonrpc.Message, headers: Mapping[str, str], sent: Sent, *, url: str = ""
    ) -> aiohttp.ClientResponse:
        """The answer's head, when it is no refusal. Whoever gets it lets go of it."""
        raw = jsonrpc.encode(message)
        for _ in range(MOST_GIVEN_UP):
            body = _Body(raw, sent)
            try:
                with translated(sent):
                    response = await self._session().post(
                        url or self.url, data=body, headers=self._with(headers), allow_redirects=False, timeout=TIMEOUT
                    )
                return await self._accepted(response)
            except UpstreamFault:
                if not body.given_up:
                    raise
        raise UpstreamFault("closed", "The server hangs up each connection before it can be used.", sent=False)

    async def get(self, headers: Mapping[str, str]) -> aiohttp.ClientResponse:
        with translated(Sent()):
            response = await self._session().get(
                self.url, headers=self._with(headers), allow_redirects=False, timeout=TIMEOUT
            )
        return await self._accepted(response)

    async def delete(self, headers: Mapping[str, str]) -> None:
        with translated(Sent()):
            response = await self._session().delete(
                self.url, headers=self._with(headers), allow_redirects=False, timeout=TIMEOUT
            )
        response.close()

    async def tell(self, message: jsonrpc.Message, headers: Mapping[str, str], *, url: str = "") -> None:
        """Send what has no answer."""
        response = await self.post(message, headers, Sent(), url=url)
        await drain(response)

    def _with(self, headers: Mapping[str, str]) -> CIMultiDict[str]:
        merged = CIMultiDict(self._headers)
        merged.update(headers)
        return merged

    async def _accepted(self, response: aiohttp.ClientResponse) -> aiohttp.ClientResponse:
        if 200 <= response.status < 300:
            return response
        try:
            raise await _refusal(response)
        finally:
            response.close()


async def chunks(response: aiohttp.ClientResponse, sent: Sent) -> AsyncIterator[bytes]:
    with translated(sent):
        async for chunk in response.content.iter_any():
            yield chunk


async def read(response: aiohttp.ClientResponse, limit: int, sent: Sent) -> bytes:
    """The whole body, unless it is too long: then no more of it is read."""
    try:
        with translated(sent):
            return await egress.read(response, limit)
    except TooLarge:
        detail = f"The server's answer is longer than {limit >> 20} MiB."
        raise UpstreamFault("too_large", detail, sent=sent.yes) from None


async def drain(response: aiohttp.ClientResponse) -> None:
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


async def _refusal(response: aiohttp.ClientResponse) -> UpstreamTrouble:
    """A status that is no success: the JSON-RPC error in its body if there is one, else the status itself."""
    status = response.status
    if status in {401, 403}:
        return UpstreamFault("auth", f"The server refused our credentials ({status}).", sent=False, status=status)
    if 300 <= status < 400:
        where = _redirected_to(response)
        detail = f"The server answered with a redirect ({status}){where}, and redirects are not followed."
        return UpstreamFault("http_status", detail, sent=False, status=status)
    said = await _said(response)
    if said is not None:
        return said
    # Below 500 the request was refused; from there on it may have been half done.
    detail = f"The server answered with status {status} and no error that the protocol knows."
    return UpstreamFault("http_status", detail, sent=status >= 500, status=status)


def _redirected_to(response: aiohttp.ClientResponse) -> str:
    """Often only a slash is missing at the end of the address that was set. A query may hold secrets."""
    try:
        url = response.url.join(URL(response.headers["Location"]))
    except (KeyError, ValueError):
        return ""
    return f" to {str(url.with_query(None).with_fragment(None).with_user(None))[:200]}"


async def _said(response: aiohttp.ClientResponse) -> UpstreamTrouble | None:
    if kind_of(response) != "application/json":
        return None
    try:
        async with asyncio.timeout(REFUSAL_SECONDS):
            raw = await read(response, REFUSAL_LIMIT, Sent())
        message = next(jsonrpc.decode(raw), {})
    except (UpstreamFault, TimeoutError):
        return None
    if "error" not in message:
        return None
    return jsonrpc.as_error(message["error"], status=response.status)


def kind_of(response: aiohttp.ClientResponse) -> str:
    return response.headers.get("Content-Type", "").partition(";")[0].strip().lower()
