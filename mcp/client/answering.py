"""Reads the answer to one request, from a JSON body or from the event stream of the request."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import aiohttp

from common.egress.request_body import SentFlag
from mcp.client.failing import read_content_type
from mcp.client.sending import RESULT_LIMIT, drain_response, read_chunk, read_response
from mcp.client.types import OnChange, OnProgress
from mcp.protocol import jsonrpc, sse
from mcp.protocol.errors import UpstreamFailure, UpstreamFault
from mcp.protocol.progress import ProgressFilter

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
    parser: sse.EventStreamParser | None = None,
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
                response, request_id, parser or sse.EventStreamParser(RESULT_LIMIT), sent, on_message
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
    parser: sse.EventStreamParser,
    sent: SentFlag,
    on_message: MessageListener,
) -> jsonrpc.Message:
    size = 0
    while chunk := await read_chunk(response, sent):
        size += len(chunk)
        if size > STREAM_LIMIT:
            raise UpstreamFault("too_large", "The server's event stream is too long.", sent=sent.is_set)
        for event in parser.feed(chunk):
            if event.name != "message":
                continue
            for message in jsonrpc.decode(event.data):
                if jsonrpc.is_answer_to(message, request_id):
                    return message
                await on_message(message)
    raise UpstreamFault("closed", "The server ended its event stream before it had answered.", sent=sent.is_set)


async def read_stream(response: aiohttp.ClientResponse, *, on_message: MessageListener) -> None:
    """Read a stream that belongs to no request until it ends."""
    parser = sse.EventStreamParser(RESULT_LIMIT)
    try:
        if read_content_type(response) != "text/event-stream":
            raise no_stream_fault()
        while chunk := await read_chunk(response, SentFlag()):
            for event in parser.feed(chunk):
                await _notify_listener(event, on_message)
    finally:
        response.close()


async def _notify_listener(event: sse.ServerSentEvent, on_message: MessageListener) -> None:
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
