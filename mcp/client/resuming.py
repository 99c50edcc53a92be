"""Resumes streams that ended before the answer: the handshake revisions let a server disconnect and continue later.

The request is never sent twice. It counts as sent in every case."""

import asyncio
from dataclasses import dataclass

import aiohttp

from common.egress.request_body import SentFlag
from mcp.client.answering import BackgroundTasks, MessageListener, read_answer
from mcp.client.sending import RESULT_LIMIT, HttpSender
from mcp.protocol import jsonrpc, sse
from mcp.protocol.errors import UpstreamFailure, UpstreamFault

#: Maximum number of consecutive resumed streams without a new event, and the default pause before resuming.
MAX_EMPTY_RESUMES, RESUME_PAUSE_SECONDS = 3, 1.0
MIN_PAUSE_SECONDS = 0.05


@dataclass
class ResumableResponse:
    """The answer to one request, which the server may split over several streams."""

    sender: HttpSender
    headers: dict[str, str]
    background_tasks: BackgroundTasks

    async def read_answer(
        self,
        response: aiohttp.ClientResponse,
        request_id: jsonrpc.RequestId,
        *,
        sent: SentFlag,
        on_message: MessageListener,
    ) -> jsonrpc.Message:
        parser = sse.EventStreamParser(RESULT_LIMIT)
        empty_resumes = 0
        while True:
            previous_id = parser.last_id
            try:
                return await read_answer(
                    response,
                    request_id,
                    sent=sent,
                    on_message=on_message,
                    background_tasks=self.background_tasks,
                    parser=parser,
                )
            except UpstreamFault as fault:
                empty_resumes = 0 if parser.last_id != previous_id else empty_resumes + 1
                if fault.code != "closed" or not parser.last_id or empty_resumes >= MAX_EMPTY_RESUMES:
                    raise
                response = await self._reopen_stream(parser, fault)
            parser = parser.continue_stream()

    async def _reopen_stream(self, parser: sse.EventStreamParser, fault: UpstreamFault) -> aiohttp.ClientResponse:
        await asyncio.sleep(max(MIN_PAUSE_SECONDS, RESUME_PAUSE_SECONDS if parser.retry is None else parser.retry))
        headers = {**self.headers, "Accept": "text/event-stream", "Last-Event-ID": parser.last_id}
        try:
            return await self.sender.get(headers)
        except UpstreamFailure:
            # This includes an expired session: the call may have run in it.
            raise fault from None
