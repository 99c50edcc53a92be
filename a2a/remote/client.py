"""A remote agent is asked: one request, and its answer or its stream. Nothing of a caller's own request goes along."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import Any

import aiohttp
from yarl import URL

from a2a import retrying
from a2a.remote import limits, reading, troubles
from a2a.remote.asking import Call
from a2a.remote.reading import Item, Unreadable
from a2a.remote.target import Interface, Target
from a2a.remote.troubles import Code, Trouble
from a2a.wire import metadata
from common import egress, strict_json
from common.egress import event_stream
from common.egress.tracked_body import SentFlag, TrackedBody
from common.errors import PayloadTooLarge
from mcp.client.http_exchange import read_chunk, read_content_type, read_response, translate_errors
from mcp.protocol import jsonrpc

REFUSAL_LIMIT, REFUSAL_SECONDS = 64 << 10, 2.0
#: Without a byte, keep-alives among them: then nobody may be there any more, and the task is asked for.
IDLE_SECONDS = 90.0
TIMEOUT = aiohttp.ClientTimeout(total=None, connect=10, sock_connect=5)
JSON, STREAM = "application/json", "text/event-stream"
JSON_KINDS = frozenset({JSON, "application/a2a+json"})


class Client:
    """Speaks to one agent for one task."""

    def __init__(self, target: Target, *, request_id: str) -> None:
        self._target = target
        self._request_id = request_id
        #: Seconds after which a silent stream is given up.
        self.idle = target.timeout

    async def ask(self, interface: Interface, call: Call) -> Item:
        """What was asked for, read."""
        sent = SentFlag()
        async with troubles.within(self._target.timeout, sent):
            return _items(interface, call, await self._said(interface, call, sent))[0]

    async def stream(self, interface: Interface, call: Call) -> AsyncGenerator[list[Item], None]:
        """What comes, as it comes: all that one piece of the network brought is one step."""
        sent = SentFlag()
        if interface.binding == "GRPC":
            async with aclosing(self._stream_rpc(interface, call, sent)) as told:
                async for said in told:
                    yield _items(interface, call, said)
            return
        async with self._answered(interface, call, sent) as response:
            if read_content_type(response) in JSON_KINDS:
                # An error, or an answer at once by who does not stream after all.
                yield _items(interface, call, await _json(response, sent))
                return
            if read_content_type(response) != STREAM:
                raise _no_answer(response)
            parser = event_stream.EventStreamParser(limits.EVENT)
            async for chunk in self._chunks(response, sent):
                items, trouble = _read_events(interface, call, parser, chunk)
                if items:
                    yield items
                if trouble is not None:
                    raise trouble

    async def card(self, url: str) -> dict[str, Any] | None:
        """The card at this place; None where there is none."""
        async with troubles.within(self._target.timeout, SentFlag()):
            with troubles.told(), translate_errors(SentFlag()):
                response = await egress.open_session().get(
                    URL(url, encoded=True),
                    headers=self._headers(url, "" if self._target.version == "auto" else self._target.version, JSON),
                    timeout=TIMEOUT,
                    allow_redirects=False,
                )
            try:
                if response.status in (404, 405, 410):
                    return None
                await _require_success(response)
                said = await _json(response, SentFlag())
            finally:
                response.close()
        if not isinstance(said, dict):
            raise Trouble(Code.INVALID_ANSWER, "The remote agent's card is no JSON object.")
        return said

    async def _said(self, interface: Interface, call: Call, sent: SentFlag) -> Any:
        if interface.binding == "GRPC":
            from a2a.remote import over_grpc  # noqa: PLC0415 - a large library, which few agents are reached with

            return await over_grpc.ask(interface, call, self._metadata(interface), sent)
        async with self._answered(interface, call, sent) as response:
            return await _json(response, sent)

    def _stream_rpc(self, interface: Interface, call: Call, sent: SentFlag) -> AsyncGenerator[Any, None]:
        from a2a.remote import over_grpc  # noqa: PLC0415 - the same

        return over_grpc.stream(interface, call, self._metadata(interface), sent, lambda: self.idle)

    async def _chunks(self, response: aiohttp.ClientResponse, sent: SentFlag) -> AsyncIterator[bytes]:
        size = 0
        while chunk := await _chunk(response, sent, self.idle):
            size += len(chunk)
            if size > limits.STREAM:
                raise Trouble(Code.TOO_LARGE, "The remote agent's event stream is too long.", sent=True)
            yield chunk

    @asynccontextmanager
    async def _answered(
        self, interface: Interface, call: Call, sent: SentFlag
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        async with troubles.within(self._target.timeout, sent):
            response = await self._asked(interface, call, sent)
        try:
            await _require_success(response)
            yield response
        finally:
            # A connection is used for one exchange: one that was kept may be hung up just when the next one begins.
            response.close()

    async def _asked(self, interface: Interface, call: Call, sent: SentFlag) -> aiohttp.ClientResponse:
        accept = STREAM if call.streamed else JSON
        body = None if call.body is None else TrackedBody(jsonrpc.encode(dict(call.body)), sent)
        with troubles.told(), translate_errors(sent):
            return await egress.open_session().request(
                call.http, URL(call.url, encoded=True), data=body, timeout=TIMEOUT, allow_redirects=False,
                headers=self._headers(call.url, interface.version, accept),
            )  # fmt: skip

    def _headers(self, url: str, version: str, accept: str) -> dict[str, str]:
        """Ours alone."""
        return {
            "Accept": accept if accept == JSON else f"{accept}, {JSON};q=0.9",
            "Accept-Encoding": "identity",
            # Who is asked for a card without it shows the ways of every version.
            **({"A2A-Version": version} if version else {}),
            "X-Request-ID": self._request_id,
            "Connection": "close",
            **self._credential(trusted=self._target.trusts(url)),
        }

    def _metadata(self, interface: Interface) -> list[tuple[str, str]]:
        own = {"A2A-Version": interface.version, "X-Request-ID": self._request_id}
        shown = self._credential(trusted=self._target.trusts_host(interface.url))
        if not all(map(metadata.is_key, shown)):
            raise Trouble(Code.REFUSED, f"Our credential's header cannot be sent over gRPC: {', '.join(shown)}.")
        said = {**own, **shown}
        return [(name.lower(), value) for name, value in said.items()]

    def _credential(self, *, trusted: bool) -> dict[str, str]:
        """To no other place than the one that was set."""
        known = self._target.credential
        return {known.header: known.value} if known and trusted else {}


async def _require_success(response: aiohttp.ClientResponse) -> None:
    if not 200 <= response.status < 300:
        asked = retrying.asked_for(response.headers.get("Retry-After", ""))
        raise troubles.of_status(response.status, await _refusal(response), retry_after=asked)


async def _refusal(response: aiohttp.ClientResponse) -> Any:
    """What a refusal's body says, if it can be read soon: its status has said most."""
    try:
        async with asyncio.timeout(REFUSAL_SECONDS):
            return strict_json.loads(await egress.read_limited_body(response, REFUSAL_LIMIT))
    except (strict_json.StrictJsonError, PayloadTooLarge, TimeoutError, aiohttp.ClientError, OSError):
        return None


async def _json(response: aiohttp.ClientResponse, sent: SentFlag) -> Any:
    if read_content_type(response) not in JSON_KINDS:
        raise _no_answer(response)
    with troubles.told():
        raw = await read_response(response, limits.ANSWER, sent)
    return _loads(raw)


def _loads(raw: bytes) -> Any:
    try:
        return strict_json.loads(raw)
    except strict_json.StrictJsonError as error:
        said = f"The remote agent's answer cannot be read. {error}"
        raise Trouble(Code.INVALID_ANSWER, said, sent=True) from None


async def _chunk(response: aiohttp.ClientResponse, sent: SentFlag, idle: float) -> bytes:
    with troubles.told():
        async with troubles.within(idle, sent):
            return await read_chunk(response, sent)


def _read_events(
    interface: Interface, call: Call, parser: event_stream.EventStreamParser, chunk: bytes
) -> tuple[list[Item], Trouble | None]:
    """What became whole with this chunk, and what is wrong after that: what came before it counts."""
    items: list[Item] = []
    try:
        with troubles.told():
            for event in parser.feed(chunk):
                items += _of_event(interface, call, event)
    except PayloadTooLarge:
        said = f"The remote agent sent an event of more than {limits.EVENT >> 20} MiB."
        return items, Trouble(Code.TOO_LARGE, said, sent=True)
    except Trouble as trouble:
        return items, trouble
    return items, None


def _of_event(interface: Interface, call: Call, event: event_stream.ServerSentEvent) -> list[Item]:
    said = _loads(event.data)
    if event.name == "error" and not (isinstance(said, Mapping) and "error" in said):
        raise troubles.of_error_body(said)
    return _items(interface, call, said)


def _items(interface: Interface, call: Call, said: Any) -> list[Item]:
    try:
        return [reading.item(_result(call, said), old=interface.untagged_old)]
    except Unreadable as error:
        told = f"The remote agent's answer is none of the protocol: {error}."
        raise Trouble(Code.INVALID_ANSWER, told, sent=True) from None


def _result(call: Call, said: Any) -> Any:
    if isinstance(said, Mapping) and "error" in said and "kind" not in said:
        raise troubles.of_error(said["error"]) if call.id else troubles.of_error_body(said)
    if not call.id:
        return said
    if not isinstance(said, Mapping) or said.get("jsonrpc") != "2.0" or said.get("id") != call.id:
        raise Trouble(Code.INVALID_ANSWER, "The remote agent's answer is not one to our request.", sent=True)
    return said.get("result")


def _no_answer(response: aiohttp.ClientResponse) -> Trouble:
    kind = read_content_type(response)[:100] or "nothing"
    said = f"The remote agent answered with {kind!r} where JSON or events were expected."
    return Trouble(Code.INVALID_ANSWER, said, sent=True)
