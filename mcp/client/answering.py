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

    def run(self, errand: Coroutine[Any, Any, None]) -> bool:
        """Start a task. Return False and start nothing if too many tasks are running."""
        if len(self._tasks) >= MAX_BACKGROUND_TASKS:
            errand.close()
            return False
        task = asyncio.create_task(self._quietly(errand))
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
    async def _quietly(errand: Coroutine[Any, Any, None]) -> None:
        try:
            async with asyncio.timeout(10):
                await errand
        except (UpstreamFailure, TimeoutError):
            return


async def ignore_message(_message: jsonrpc.Message) -> None:
    """Listener that ignores all messages except the answer."""


def progress_listener(on_progress: OnProgress | None, token: jsonrpc.RequestId) -> MessageListener:
    if on_progress is None:
        return ignore_message
    progress = ProgressFilter(token)

    async def hear(message: jsonrpc.Message) -> None:
        said = progress.select(message)
        if said is not None:
            await on_progress(said)

    return hear


def change_listener(on_change: OnChange) -> MessageListener:
    async def hear(message: jsonrpc.Message) -> None:
        if message.get("method") == "notifications/tools/list_changed":
            await on_change()

    return hear


async def read_answer(
    response: aiohttp.ClientResponse,
    request_id: jsonrpc.RequestId,
    *,
    sent: SentFlag,
    hear: MessageListener,
    errands: BackgroundTasks,
    parser: sse.EventStreamParser | None = None,
) -> jsonrpc.Message:
    """Return the result of the request. On any error or cancellation, close the response to notify the server.

    If a stream ends too early, the caller reads the position for resuming from its `parser`."""
    whole = False
    try:
        kind = read_content_type(response)
        if kind == "application/json":
            message = await _read_from_body(response, request_id, sent, hear)
        elif kind == "text/event-stream":
            message = await _read_from_stream(
                response, request_id, parser or sse.EventStreamParser(RESULT_LIMIT), sent, hear
            )
        else:
            raise _wrong_type_fault(response, kind)
        whole = True
    finally:
        if not whole:
            response.close()
    _finish_response(response, errands)
    return jsonrpc.read_result(message, status=response.status)


def _finish_response(response: aiohttp.ClientResponse, errands: BackgroundTasks) -> None:
    """Release the response. The rest of its body is read in the background, so that the connection can be reused."""
    if response.content.at_eof():
        response.release()
    elif not errands.run(drain_response(response)):
        response.close()


async def _read_from_stream(
    response: aiohttp.ClientResponse,
    request_id: jsonrpc.RequestId,
    parser: sse.EventStreamParser,
    sent: SentFlag,
    hear: MessageListener,
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
                await hear(message)
    raise UpstreamFault("closed", "The server ended its event stream before it had answered.", sent=sent.is_set)


async def read_stream(response: aiohttp.ClientResponse, *, hear: MessageListener) -> None:
    """Read a stream that belongs to no request until it ends."""
    parser = sse.EventStreamParser(RESULT_LIMIT)
    try:
        if read_content_type(response) != "text/event-stream":
            raise no_stream_fault()
        while chunk := await read_chunk(response, SentFlag()):
            for event in parser.feed(chunk):
                await _notify_listener(event, hear)
    finally:
        response.close()


async def _notify_listener(event: sse.ServerSentEvent, hear: MessageListener) -> None:
    if event.name == "message":
        for message in jsonrpc.decode(event.data):
            await hear(message)


def no_stream_fault() -> UpstreamFault:
    return UpstreamFault("protocol", "The server answers a GET with no event stream.", sent=False)


async def _read_from_body(
    response: aiohttp.ClientResponse, request_id: jsonrpc.RequestId, sent: SentFlag, hear: MessageListener
) -> jsonrpc.Message:
    for message in jsonrpc.decode(await read_response(response, RESULT_LIMIT, sent)):
        if jsonrpc.is_answer_to(message, request_id):
            return message
        await hear(message)
    raise UpstreamFault("protocol", "The server's answer belongs to no request of ours.", sent=sent.is_set)


def _wrong_type_fault(response: aiohttp.ClientResponse, kind: str) -> UpstreamFault:
    if response.status == 202:
        return UpstreamFault("protocol", "The server accepted the request and gave no answer to it (202).", sent=True)
    what = f"as {kind[:60]}" if kind else "without a content type"
    return UpstreamFault("protocol", f"The server answered {what}, and not with JSON.", sent=True)
