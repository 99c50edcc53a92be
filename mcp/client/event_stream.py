"""One event stream of a 2024-11-05 server. All answers arrive on the stream; requests are sent by POST.

One task reads the stream, and each request waits for a future. The end of the stream fails all waiting requests.
"""

import asyncio
import itertools
from typing import Any

import aiohttp
from yarl import URL

from common.egress.request_body import SentFlag
from mcp.client.answering import (
    BackgroundTasks,
    MessageListener,
    change_listener,
    ignore_message,
    no_stream_fault,
    progress_listener,
)
from mcp.client.failing import read_content_type
from mcp.client.sending import RESULT_LIMIT, HttpSender, drain_response, read_chunk
from mcp.client.types import OnChange, OnProgress
from mcp.protocol import jsonrpc, legacy, sse
from mcp.protocol.errors import UpstreamFailure, UpstreamFault
from mcp.protocol.jsonrpc import Message
from mcp.protocol.progress import add_progress_token

#: Seconds without a request after which the stream is closed. The next request opens another.
IDLE_SECONDS = 600.0
STREAM_ENDED = UpstreamFault("closed", "The server ended its event stream.", sent=True)


class SseStream:
    def __init__(self, sender: HttpSender, errands: BackgroundTasks) -> None:
        self._sender = sender
        self._background_tasks = errands
        self._ids = itertools.count(1)
        self._waiting: dict[int, tuple[asyncio.Future[Message], MessageListener]] = {}
        self._endpoint: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._reader = asyncio.create_task(self._read_until_end())
        self._is_closed = False
        self._idle_timer: asyncio.TimerHandle | None = None
        self.welcome: legacy.InitializeResult | None = None

    @property
    def is_open(self) -> bool:
        return not self._is_closed and not self._reader.done()

    async def initialize(self) -> legacy.InitializeResult:
        answer = await self.request(
            "initialize", legacy.INITIALIZE, sent=SentFlag(), hear=ignore_message, cancellable=False
        )
        self.welcome = legacy.parse_initialize_result(answer)
        await self._sender.notify(legacy.INITIALIZED, {}, url=await self._address())
        return self.welcome

    async def request(
        self,
        method: str,
        params: Message,
        *,
        sent: SentFlag,
        meta: Message | None = None,
        on_progress: OnProgress | None = None,
        hear: MessageListener | None = None,
        cancellable: bool = True,
    ) -> Message:
        request_id = next(self._ids)
        said = add_progress_token(meta, None if on_progress is None else request_id)
        message = legacy.build_request(request_id, method, params, meta=said)
        url = await self._address()
        if not self.is_open:
            raise UpstreamFault("closed", STREAM_ENDED.detail, sent=False)
        answered: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._waiting[request_id] = (answered, hear or progress_listener(on_progress, request_id))
        self._cancel_idle_timer()
        try:
            response = await self._sender.post(message, {}, sent, url=url)
            if not self._background_tasks.run(drain_response(response)):
                response.close()
            return jsonrpc.read_result(await self._answer(answered))
        except asyncio.CancelledError:
            if sent.is_set and cancellable:
                self._send_in_background(
                    legacy.cancelled_notification(request_id, "Nobody waits for the answer any more.")
                )
            raise
        finally:
            del self._waiting[request_id]
            self._start_idle_timer()

    def _cancel_idle_timer(self) -> None:
        if self._idle_timer is not None:
            self._idle_timer.cancel()
            self._idle_timer = None

    def _start_idle_timer(self) -> None:
        """Close the stream after some time without requests: an idle stream occupies a connection on both sides."""
        self._cancel_idle_timer()
        if not self._waiting and self.is_open:
            self._idle_timer = asyncio.get_running_loop().call_later(IDLE_SECONDS, self._end)

    def _end(self) -> None:
        # Set first: no request may start between the cancellation and the end of the reader task.
        self._is_closed = True
        self._reader.cancel()

    @staticmethod
    async def _answer(answered: asyncio.Future[Message]) -> Message:
        try:
            return await answered
        except UpstreamFault as end:
            # One fault fails all waiting requests, so each raises its own copy. The request had been sent.
            raise UpstreamFault(end.code, end.detail, sent=True) from None

    async def watch(self, on_change: OnChange) -> None:
        """Listen for changes until the stream ends. A stream with a listener is not idle."""
        over: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        number = next(self._ids)
        self._waiting[number] = (over, change_listener(on_change))
        self._cancel_idle_timer()
        try:
            await self._answer(over)
        finally:
            del self._waiting[number]
            self._start_idle_timer()

    async def close(self) -> None:
        self._cancel_idle_timer()
        self._end()
        await asyncio.wait([self._reader])

    async def _address(self) -> str:
        return await asyncio.shield(self._endpoint)

    async def _read_until_end(self) -> None:
        end: UpstreamFailure = STREAM_ENDED
        try:
            await self._read()
        except UpstreamFailure as trouble:
            end = trouble
        finally:
            self._fail_waiting(end)

    async def _read(self) -> None:
        response = await self._sender.get({"Accept": "text/event-stream"})
        try:
            if read_content_type(response) != "text/event-stream":
                raise no_stream_fault()
            parser = sse.EventStreamParser(RESULT_LIMIT)
            while chunk := await read_chunk(response, SentFlag()):
                for event in parser.feed(chunk):
                    await self._handle_event(event, response)
        finally:
            response.close()

    async def _handle_event(self, event: sse.ServerSentEvent, response: aiohttp.ClientResponse) -> None:
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
        for request_id, (answered, hear) in list(self._waiting.items()):
            if message.get("id") is not None and jsonrpc.is_answer_to(message, request_id):
                if not answered.done():
                    answered.set_result(message)
                return
            if "method" in message:
                await self._notify_listener(answered, hear, message)

    @staticmethod
    async def _notify_listener(answered: asyncio.Future[Message], hear: MessageListener, message: Message) -> None:
        """Call a listener. Its error fails its own call and not the stream, which other calls wait on."""
        try:
            await hear(message)
        except Exception as error:
            if not answered.done():
                answered.set_exception(error)

    def _send_in_background(self, message: Message) -> None:
        if self._endpoint.done() and self._endpoint.exception() is None:
            self._background_tasks.run(self._sender.notify(message, {}, url=self._endpoint.result()))

    def _fail_waiting(self, end: UpstreamFailure) -> None:
        waiting: list[asyncio.Future[Any]] = [self._endpoint, *(answered for answered, _ in self._waiting.values())]
        for future in waiting:
            if not future.done():
                future.set_exception(end)
                # Retrieve the exception, so that asyncio logs no warning if no request waits.
                future.exception()


def _parse_endpoint(stream: URL, said: bytes) -> str:
    """Return the URL for requests that the server sent. It must have the same origin, to protect our credentials."""
    try:
        url = stream.join(URL(said.decode().strip()))
        same = url.origin() == stream.origin()
    except ValueError:
        same = False
    if not same:
        raise UpstreamFault("protocol", "The server names an endpoint that is not on its own origin.", sent=False)
    return str(url)
