"""Connects to servers over HTTP with SSE (2024-11-05)."""

import asyncio
import itertools
from functools import partial
from typing import Any

import aiohttp
from yarl import URL

from common.egress import event_stream
from common.egress.tracked_body import SentFlag
from mcp.client.connection import UpstreamConnection
from mcp.client.http_exchange import (
    RESULT_LIMIT,
    BackgroundTasks,
    HttpSender,
    MessageListener,
    change_listener,
    deadline,
    drain_response,
    ignore_message,
    no_stream_fault,
    parse_events,
    progress_listener,
    read_chunk,
    read_content_type,
)
from mcp.client.types import Era, OnChange, OnProgress
from mcp.protocol import jsonrpc, legacy
from mcp.protocol.jsonrpc import Message
from mcp.protocol.progress import add_progress_token
from mcp.protocol.upstream_errors import UpstreamFailure, UpstreamFault

#: Seconds without a request after which the stream is closed. The next request opens another.
IDLE_SECONDS = 600.0
STREAM_ENDED = UpstreamFault("closed", "The server ended its event stream.", sent=True)


class SseStream:
    """One open event stream, and the requests that wait for an answer on it."""

    def __init__(self, sender: HttpSender, background_tasks: BackgroundTasks) -> None:
        self._sender = sender
        self._background_tasks = background_tasks
        self._ids = itertools.count(1)
        self._pending_requests: dict[int, tuple[asyncio.Future[Message], MessageListener]] = {}
        self._endpoint: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._reader = asyncio.create_task(self._read_until_end())
        self._is_closed = False
        self._idle_timer: asyncio.TimerHandle | None = None
        self.initialize_result: legacy.InitializeResult | None = None

    @property
    def is_open(self) -> bool:
        return not self._is_closed and not self._reader.done()

    async def initialize(self) -> legacy.InitializeResult:
        answer = await self.request(
            "initialize", legacy.INITIALIZE, sent=SentFlag(), on_message=ignore_message, cancellable=False
        )
        self.initialize_result = legacy.parse_initialize_result(answer)
        await self._sender.notify(legacy.INITIALIZED, {}, url=await self._address())
        return self.initialize_result

    async def request(
        self,
        method: str,
        params: Message,
        *,
        sent: SentFlag,
        meta: Message | None = None,
        on_progress: OnProgress | None = None,
        on_message: MessageListener | None = None,
        cancellable: bool = True,
    ) -> Message:
        request_id = next(self._ids)
        request_meta = add_progress_token(meta, None if on_progress is None else request_id)
        message = legacy.build_request(request_id, method, params, meta=request_meta)
        url = await self._address()
        if not self.is_open:
            raise UpstreamFault("closed", STREAM_ENDED.detail, sent=False)
        future: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._pending_requests[request_id] = (future, on_message or progress_listener(on_progress, request_id))
        self._cancel_idle_timer()
        try:
            response = await self._sender.post(message, {}, sent, url=url)
            if not self._background_tasks.run(drain_response(response)):
                response.close()
            return jsonrpc.read_result(await self._wait_for_answer(future))
        except asyncio.CancelledError:
            if sent.is_set and cancellable:
                self._send_in_background(
                    legacy.cancelled_notification(request_id, "Nobody waits for the answer any more.")
                )
            raise
        finally:
            del self._pending_requests[request_id]
            self._start_idle_timer()

    def _cancel_idle_timer(self) -> None:
        if self._idle_timer is not None:
            self._idle_timer.cancel()
            self._idle_timer = None

    def _start_idle_timer(self) -> None:
        """Close the stream after some time without requests: an idle stream occupies a connection on both sides."""
        self._cancel_idle_timer()
        if not self._pending_requests and self.is_open:
            self._idle_timer = asyncio.get_running_loop().call_later(IDLE_SECONDS, self._end)

    def _end(self) -> None:
        # Set first: no request may start between the cancellation and the end of the reader task.
        self._is_closed = True
        self._reader.cancel()

    @staticmethod
    async def _wait_for_answer(future: asyncio.Future[Message]) -> Message:
        try:
            return await future
        except UpstreamFault as fault:
            # One fault fails all waiting requests, so each raises its own copy. The request had been sent.
            raise UpstreamFault(fault.code, fault.detail, sent=True) from None

    async def watch(self, on_change: OnChange) -> None:
        """Listen for changes until the stream ends. A stream with a listener is not idle."""
        stream_end: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        request_id = next(self._ids)
        self._pending_requests[request_id] = (stream_end, change_listener(on_change))
        self._cancel_idle_timer()
        try:
            await self._wait_for_answer(stream_end)
        finally:
            del self._pending_requests[request_id]
            self._start_idle_timer()

    async def close(self) -> None:
        self._cancel_idle_timer()
        self._end()
        await asyncio.wait([self._reader])

    async def _address(self) -> str:
        return await asyncio.shield(self._endpoint)

    async def _read_until_end(self) -> None:
        failure: UpstreamFailure = STREAM_ENDED
        try:
            await self._read()
        except UpstreamFailure as read_failure:
            failure = read_failure
        finally:
            self._fail_waiting(failure)

    async def _read(self) -> None:
        response = await self._sender.get({"Accept": "text/event-stream"})
        try:
            if read_content_type(response) != "text/event-stream":
                raise no_stream_fault()
            parser = event_stream.EventStreamParser(RESULT_LIMIT)
            while chunk := await read_chunk(response, SentFlag()):
                for event in parse_events(parser, chunk):
                    await self._handle_event(event, response)
        finally:
            response.close()

    async def _handle_event(self, event: event_stream.ServerSentEvent, response: aiohttp.ClientResponse) -> None:
        if event.name == "endpoint":
            if not self._endpoint.done():
                self._endpoint.set_result(_parse_endpoint(response.url, event.data))
        elif event.name == "message":
            for message in jsonrpc.decode(event.data):
                await self._deliver(message)

    async def _deliver(self, message: Message) -> None:
        reply = legacy.build_reply(message)
        if reply is not None:
            self._send_in_background(reply)
            return
        for request_id, (future, on_message) in list(self._pending_requests.items()):
            if message.get("id") is not None and jsonrpc.is_answer_to(message, request_id):
                if not future.done():
                    future.set_result(message)
                return
            if "method" in message:
                await self._notify_listener(future, on_message, message)

    @staticmethod
    async def _notify_listener(future: asyncio.Future[Message], on_message: MessageListener, message: Message) -> None:
        """Call a listener. Its error fails its own call and not the stream, which other calls wait on."""
        try:
            await on_message(message)
        except Exception as error:
            if not future.done():
                future.set_exception(error)

    def _send_in_background(self, message: Message) -> None:
        if self._endpoint.done() and self._endpoint.exception() is None:
            self._background_tasks.run(self._sender.notify(message, {}, url=self._endpoint.result()))

    def _fail_waiting(self, failure: UpstreamFailure) -> None:
        futures: list[asyncio.Future[Any]] = [
            self._endpoint,
            *(request_future for request_future, _ in self._pending_requests.values()),
        ]
        for future in futures:
            if not future.done():
                future.set_exception(failure)
                # Retrieve the exception, so that asyncio logs no warning if no request waits.
                future.exception()


def _parse_endpoint(stream_url: URL, data: bytes) -> str:
    """Return the URL for requests that the server sent. It must have the same origin, to protect our credentials."""
    try:
        url = stream_url.join(URL(data.decode().strip()))
        is_same_origin = url.origin() == stream_url.origin()
    except ValueError:
        is_same_origin = False
    if not is_same_origin:
        raise UpstreamFault("protocol", "The server names an endpoint that is not on its own origin.", sent=False)
    return str(url)


class SseConnection(UpstreamConnection):
    """A connection over HTTP with SSE. It opens a new event stream when the previous one has ended."""

    era: Era = "sse"

    def __init__(self, sender: HttpSender, background_tasks: BackgroundTasks, *, handshake_timeout: float) -> None:
        self._sender = sender
        self._background_tasks = background_tasks
        self._handshake_timeout = handshake_timeout
        self._stream: SseStream | None = None
        self._opening = asyncio.Lock()

    async def initialize(self) -> legacy.InitializeResult:
        stream = await self._open()
        assert stream.initialize_result is not None
        return stream.initialize_result

    async def _open(self) -> SseStream:
        async with self._opening:
            if self._stream is None or not self._stream.is_open:
                self._stream = await self._start_stream()
            return self._stream

    async def _start_stream(self) -> SseStream:
        stream = SseStream(self._sender, self._background_tasks)
        try:
            async with deadline(self._handshake_timeout, SentFlag()):
                await stream.initialize()
        except BaseException:
            await stream.close()
            raise
        return stream

    async def request(
        self,
        method: str,
        params: Message,
        *,
        sent: SentFlag,
        meta: Message | None = None,
        on_progress: OnProgress | None = None,
    ) -> Message:
        send_request = partial(
            SseStream.request, method=method, params=params, sent=sent, meta=meta, on_progress=on_progress
        )
        stream = await self._open()
        try:
            return await send_request(stream)
        except UpstreamFailure as failure:
            # The server no longer knows the stream, or the stream ended before a byte was sent.
            if failure.status != 404 and not (isinstance(failure, UpstreamFault) and _never_sent(failure)):
                raise
            await stream.close()
            sent.is_set = False
        return await send_request(await self._open())

    async def watch(self, on_change: OnChange) -> None:
        await (await self._open()).watch(on_change)

    async def close(self) -> None:
        stream, self._stream = self._stream, None
        if stream is not None:
            await stream.close()


def _never_sent(fault: UpstreamFault) -> bool:
    return fault.code == "closed" and not fault.sent
