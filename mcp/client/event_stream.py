"""One stream of a server of 2024-11-05, from its opening to its end: it brings every answer, requests go beside it.

One task owns it; whoever asks only waits for a future. When the stream ends, however it ends, nobody goes on waiting.
"""

import asyncio
import itertools
from typing import Any

import aiohttp
from yarl import URL

from common.egress.request_body import SentFlag
from mcp.client.answering import Errands, Hear, hearing, hearing_changes, ignore, no_stream
from mcp.client.failing import kind_of
from mcp.client.sending import RESULT_LIMIT, Sender, drain, next_chunk
from mcp.client.types import OnChange, OnProgress
from mcp.protocol import jsonrpc, legacy, sse
from mcp.protocol.errors import UpstreamFault, UpstreamTrouble
from mcp.protocol.jsonrpc import Message
from mcp.protocol.progress import with_token

#: Seconds without a request after which a stream is ended; the next request opens another.
IDLE = 600.0
ENDED = UpstreamFault("closed", "The server ended its event stream.", sent=True)


class Stream:
    def __init__(self, sender: Sender, errands: Errands) -> None:
        self._sender = sender
        self._errands = errands
        self._ids = itertools.count(1)
        self._waiting: dict[int, tuple[asyncio.Future[Message], Hear]] = {}
        self._endpoint: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._owner = asyncio.create_task(self._own())
        self._over = False
        self._rest: asyncio.TimerHandle | None = None
        self.welcome: legacy.Welcome | None = None

    @property
    def is_open(self) -> bool:
        return not self._over and not self._owner.done()

    async def initialize(self) -> legacy.Welcome:
        answer = await self.ask("initialize", legacy.INITIALIZE, sent=SentFlag(), hear=ignore, cancellable=False)
        self.welcome = legacy.welcome(answer)
        await self._sender.tell(legacy.INITIALIZED, {}, url=await self._address())
        return self.welcome

    async def ask(
        self,
        method: str,
        params: Message,
        *,
        sent: SentFlag,
        meta: Message | None = None,
        on_progress: OnProgress | None = None,
        hear: Hear | None = None,
        cancellable: bool = True,
    ) -> Message:
        request_id = next(self._ids)
        said = with_token(meta, None if on_progress is None else request_id)
        message = legacy.envelope(request_id, method, params, meta=said)
        url = await self._address()
        if not self.is_open:
            raise UpstreamFault("closed", ENDED.detail, sent=False)
        answered: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._waiting[request_id] = (answered, hear or hearing(on_progress, request_id))
        self._keep_awake()
        try:
            response = await self._sender.post(message, {}, sent, url=url)
            if not self._errands.run(drain(response)):
                response.close()
            return jsonrpc.outcome(await self._answer(answered))
        except asyncio.CancelledError:
            if sent.is_set and cancellable:
                self._tell(legacy.cancelled(request_id, "Nobody waits for the answer any more."))
            raise
        finally:
            del self._waiting[request_id]
            self._rest_when_idle()

    def _keep_awake(self) -> None:
        if self._rest is not None:
            self._rest.cancel()
            self._rest = None

    def _rest_when_idle(self) -> None:
        """A stream that nobody asks anything is a connection held for nothing, on both sides."""
        self._keep_awake()
        if not self._waiting and self.is_open:
            self._rest = asyncio.get_running_loop().call_later(IDLE, self._end)

    def _end(self) -> None:
        # Nobody may begin to wait between here and the owner's next turn.
        self._over = True
        self._owner.cancel()

    @staticmethod
    async def _answer(answered: asyncio.Future[Message]) -> Message:
        try:
            return await answered
        except UpstreamFault as end:
            # One fault ended the stream for all who wait; each gets one of its own, and the request had left.
            raise UpstreamFault(end.code, end.detail, sent=True) from None

    async def watch(self, on_change: OnChange) -> None:
        """Until the stream ends; while somebody listens it does not rest."""
        over: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        number = next(self._ids)
        self._waiting[number] = (over, hearing_changes(on_change))
        self._keep_awake()
        try:
            await self._answer(over)
        finally:
            del self._waiting[number]
            self._rest_when_idle()

    async def close(self) -> None:
        self._keep_awake()
        self._end()
        await asyncio.wait([self._owner])

    async def _address(self) -> str:
        return await asyncio.shield(self._endpoint)

    async def _own(self) -> None:
        end: UpstreamTrouble = ENDED
        try:
            await self._read()
        except UpstreamTrouble as trouble:
            end = trouble
        finally:
            self._fail(end)

    async def _read(self) -> None:
        response = await self._sender.get({"Accept": "text/event-stream"})
        try:
            if kind_of(response) != "text/event-stream":
                raise no_stream()
            parser = sse.Parser(RESULT_LIMIT)
            while chunk := await next_chunk(response, SentFlag()):
                for event in parser.feed(chunk):
                    await self._take(event, response)
        finally:
            response.close()

    async def _take(self, event: sse.Event, response: aiohttp.ClientResponse) -> None:
        if event.name == "endpoint":
            if not self._endpoint.done():
                self._endpoint.set_result(_endpoint(response.url, event.data))
        elif event.name == "message":
            for message in jsonrpc.decode(event.data):
                await self._deliver(message)

    async def _deliver(self, message: Message) -> None:
        reply = legacy.reply(message)
        if reply is not None:
            self._tell(reply)
            return
        for request_id, (answered, hear) in list(self._waiting.items()):
            if message.get("id") is not None and jsonrpc.answers(message, request_id):
                if not answered.done():
                    answered.set_result(message)
                return
            if "method" in message:
                await self._told(answered, hear, message)

    @staticmethod
    async def _told(answered: asyncio.Future[Message], hear: Hear, message: Message) -> None:
        """A listener that fails ends its own call, and not the stream that the others wait on."""
        try:
            await hear(message)
        except Exception as error:
            if not answered.done():
                answered.set_exception(error)

    def _tell(self, message: Message) -> None:
        if self._endpoint.done() and self._endpoint.exception() is None:
            self._errands.run(self._sender.tell(message, {}, url=self._endpoint.result()))

    def _fail(self, end: UpstreamTrouble) -> None:
        waiting: list[asyncio.Future[Any]] = [self._endpoint, *(answered for answered, _ in self._waiting.values())]
        for future in waiting:
            if not future.done():
                future.set_exception(end)
                # Looked at, so that asyncio does not complain where nobody waits.
                future.exception()


def _endpoint(stream: URL, said: bytes) -> str:
    """Where to post, said by the server: of the same origin, so that our credentials stay where they belong."""
    try:
        url = stream.join(URL(said.decode().strip()))
        same = url.origin() == stream.origin()
    except ValueError:
        same = False
    if not same:
        raise UpstreamFault("protocol", "The server names an endpoint that is not on its own origin.", sent=False)
    return str(url)
