"""Sends one HTTP request, reads its answer or stream, maps errors."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Mapping
from typing import Any

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from common import egress
from common.egress import event_stream
from common.egress.tracked_body import SentFlag, TrackedBody
from common.errors import PayloadTooLarge
from mcp.client.types import OnChange, OnProgress, ServerTarget
from mcp.protocol import jsonrpc
from mcp.protocol.headers import is_reserved_header
from mcp.protocol.progress import ProgressFilter
from mcp.protocol.upstream_errors import FaultCode, UpstreamFailure, UpstreamFault

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


#: Called with each message that is not the answer.
MessageListener = Callable[[jsonrpc.Message], Awaitable[None]]
#: Limit for all bytes of one stream. Each event has the limit of an answer.
STREAM_LIMIT = 4 * RESULT_LIMIT
MAX_BACKGROUND_TASKS = 256


class BackgroundTasks:
    """Short tasks whose end no caller awaits. `close` ends all of them."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def run(self, coroutine: Coroutine[Any, Any, None]) -> bool:
        """Start a task. Return False and start nothing if too many tasks are running."""
        if len(self._tasks) >= MAX_BACKGROUND_TASKS:
            coroutine.close()
            return False
        task = asyncio.create_task(self._run_ignoring_failures(coroutine))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return True

    async def close(self, *, seconds: float = 2) -> None:
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=seconds)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @staticmethod
    async def _run_ignoring_failures(coroutine: Coroutine[Any, Any, None]) -> None:
        try:
            async with asyncio.timeout(10):
                await coroutine
        except (UpstreamFailure, TimeoutError):
            return


async def ignore_message(_message: jsonrpc.Message) -> None:
    """Listener that ignores all messages except the answer."""


def progress_listener(on_progress: OnProgress | None, token: jsonrpc.RequestId) -> MessageListener:
    if on_progress is None:
        return ignore_message
    progress_filter = ProgressFilter(token)

    async def handle_message(message: jsonrpc.Message) -> None:
        update = progress_filter.select(message)
        if update is not None:
            await on_progress(update)

    return handle_message


def change_listener(on_change: OnChange) -> MessageListener:
    async def handle_message(message: jsonrpc.Message) -> None:
        if message.get("method") == "notifications/tools/list_changed":
            await on_change()

    return handle_message


async def read_answer(
    response: aiohttp.ClientResponse,
    request_id: jsonrpc.RequestId,
    *,
    sent: SentFlag,
    on_message: MessageListener,
    background_tasks: BackgroundTasks,
    parser: event_stream.EventStreamParser | None = None,
) -> jsonrpc.Message:
    """Return the result of the request. On any error or cancellation, close the response to notify the server.

    If a stream ends too early, the caller reads the position for resuming from its `parser`."""
    is_complete = False
    try:
        content_type = read_content_type(response)
        if content_type == "application/json":
            message = await _read_from_body(response, request_id, sent, on_message)
        elif content_type == "text/event-stream":
            message = await _read_from_stream(
                response, request_id, parser or event_stream.EventStreamParser(RESULT_LIMIT), sent, on_message
            )
        else:
            raise _wrong_type_fault(response, content_type)
        is_complete = True
    finally:
        if not is_complete:
            response.close()
    _finish_response(response, background_tasks)
    return jsonrpc.read_result(message, status=response.status)


def _finish_response(response: aiohttp.ClientResponse, background_tasks: BackgroundTasks) -> None:
    """Release the response. The rest of its body is read in the background, so that the connection can be reused."""
    if response.content.at_eof():
        response.release()
    elif not background_tasks.run(drain_response(response)):
        response.close()


async def _read_from_stream(
    response: aiohttp.ClientResponse,
    request_id: jsonrpc.RequestId,
    parser: event_stream.EventStreamParser,
    sent: SentFlag,
    on_message: MessageListener,
) -> jsonrpc.Message:
    size = 0
    while chunk := await read_chunk(response, sent):
        size += len(chunk)
        if size > STREAM_LIMIT:
            raise UpstreamFault("too_large", "The server's event stream is too long.", sent=sent.is_set)
        for event in parse_events(parser, chunk):
            if event.name != "message":
                continue
            for message in jsonrpc.decode(event.data):
                if jsonrpc.is_answer_to(message, request_id):
                    return message
                await on_message(message)
    raise UpstreamFault("closed", "The server ended its event stream before it had answered.", sent=sent.is_set)


async def read_stream(response: aiohttp.ClientResponse, *, on_message: MessageListener) -> None:
    """Read a stream that belongs to no request until it ends."""
    parser = event_stream.EventStreamParser(RESULT_LIMIT)
    try:
        if read_content_type(response) != "text/event-stream":
            raise no_stream_fault()
        while chunk := await read_chunk(response, SentFlag()):
            for event in parse_events(parser, chunk):
                await _notify_listener(event, on_message)
    finally:
        response.close()


def parse_events(parser: event_stream.EventStreamParser, chunk: bytes) -> Iterator[event_stream.ServerSentEvent]:
    """Yield the events that are complete with this chunk. An event beyond the limit is a fault of the server."""
    try:
        yield from parser.feed(chunk)
    except PayloadTooLarge as error:
        message = f"The server sent an event of more than {error.details['limit'] >> 20} MiB."
        raise UpstreamFault("too_large", message, sent=True) from None


async def _notify_listener(event: event_stream.ServerSentEvent, on_message: MessageListener) -> None:
    if event.name == "message":
        for message in jsonrpc.decode(event.data):
            await on_message(message)


def no_stream_fault() -> UpstreamFault:
    return UpstreamFault("protocol", "The server answers a GET with no event stream.", sent=False)


async def _read_from_body(
    response: aiohttp.ClientResponse, request_id: jsonrpc.RequestId, sent: SentFlag, on_message: MessageListener
) -> jsonrpc.Message:
    for message in jsonrpc.decode(await read_response(response, RESULT_LIMIT, sent)):
        if jsonrpc.is_answer_to(message, request_id):
            return message
        await on_message(message)
    raise UpstreamFault("protocol", "The server's answer belongs to no request of ours.", sent=sent.is_set)


def _wrong_type_fault(response: aiohttp.ClientResponse, content_type: str) -> UpstreamFault:
    if response.status == 202:
        return UpstreamFault("protocol", "The server accepted the request and gave no answer to it (202).", sent=True)
    form = f"as {content_type[:60]}" if content_type else "without a content type"
    return UpstreamFault("protocol", f"The server answered {form}, and not with JSON.", sent=True)
