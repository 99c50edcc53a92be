"""Taking up a stream again that ended before the answer: the handshake revisions let a server hang up and go on later.

The request is never sent a second time. Whatever comes of this, it counts as sent."""

import asyncio
from dataclasses import dataclass

import aiohttp

from common.egress.request_body import SentFlag
from mcp.client.answering import Errands, Hear, answer
from mcp.client.sending import RESULT_LIMIT, Sender
from mcp.protocol import jsonrpc, sse
from mcp.protocol.errors import UpstreamFault, UpstreamTrouble

#: How often in a row a stream may be taken up again and bring nothing new; and the pause where the server names none.
MOST_VAIN, PAUSE = 3, 1.0
SHORTEST_PAUSE = 0.05


@dataclass
class Resumable:
    """The answer to one request, over as many streams as the server cuts it into."""

    sender: Sender
    headers: dict[str, str]
    errands: Errands

    async def answer(
        self, response: aiohttp.ClientResponse, request_id: jsonrpc.RequestId, *, sent: SentFlag, hear: Hear
    ) -> jsonrpc.Message:
        parser = sse.Parser(RESULT_LIMIT)
        vain = 0
        while True:
            before = parser.last_id
            try:
                return await answer(response, request_id, sent=sent, hear=hear, errands=self.errands, parser=parser)
            except UpstreamFault as ended:
                vain = 0 if parser.last_id != before else vain + 1
                if ended.code != "closed" or not parser.last_id or vain >= MOST_VAIN:
                    raise
                response = await self._again(parser, ended)
            parser = parser.next()

    async def _again(self, parser: sse.Parser, ended: UpstreamFault) -> aiohttp.ClientResponse:
        await asyncio.sleep(max(SHORTEST_PAUSE, PAUSE if parser.retry is None else parser.retry))
        headers = {**self.headers, "Accept": "text/event-stream", "Last-Event-ID": parser.last_id}
        try:
            return await self.sender.get(headers)
        except UpstreamTrouble:
            # Also a session that is gone: the call may have been made in it.
            raise ended from None
