"""Connection to a 2024-11-05 server over HTTP+SSE. It opens a stream on demand and again after the stream has ended."""

import asyncio
from functools import partial

from common.egress.request_body import SentFlag
from mcp.client.answering import BackgroundTasks
from mcp.client.connection import UpstreamConnection
from mcp.client.event_stream import SseStream
from mcp.client.failing import deadline
from mcp.client.sending import HttpSender
from mcp.client.types import Era, OnChange, OnProgress
from mcp.protocol import legacy
from mcp.protocol.errors import UpstreamFailure, UpstreamFault
from mcp.protocol.jsonrpc import Message


class SseConnection(UpstreamConnection):
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
