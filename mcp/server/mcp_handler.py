"""One request and its answer."""

import asyncio
import logging
import time
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from common import crypto
from common.api.signed_cursors import SignedCursors
from common.asgi.bodies import Receive
from common.context import RequestContext, bind_context
from common.ids import parse_uuid, uuid7
from mcp.client.transports import OnProgress
from mcp.gateway.gateway import Ask, Outcome
from mcp.gateway.tool_list import Listing
from mcp.server import admission, bodies, clients, errors, heads, mcp_renderer, request_parser, rest_renderer, results
from mcp.server.admission import House
from mcp.server.errors import Pairs, Refusal
from mcp.server.progress import Progress
from mcp.server.request_parser import Notification, Request
from mcp.server.response_writer import QUIET_SECONDS, Reply
from nhi.authorization.authentication import Unauthenticated
from nhi.credentials import tokens

log = logging.getLogger(__name__)
sign = partial(crypto.sign, "mcp-cursor")


class Gateway(Protocol):
    """What stands behind this door: `mcp.gateway.gateway`."""

    async def call_tool(self, ask: Ask) -> Outcome: ...

    async def list_tools(self, bearer: str, *, server: str = "", source: str = "") -> Listing | Unauthenticated: ...


@dataclass(frozen=True)
class Door:
    """What all exchanges share."""

    gateway: Gateway
    house: House
    #: Who answers, as results say it.
    info: dict[str, str]
    #: On every answer.
    headers: Pairs


class Exchange:
    def __init__(self, door: Door, server: str, scope: dict[str, Any], receive: Receive, send: Any) -> None:
        self._door, self._server, self._receive = door, server, receive
        self._method: str = scope["method"]
        self._head = heads.read(scope["headers"])
        self._request_id = parse_uuid(self._head.get("x-request-id")) or uuid7()
        self._source = clients.source(scope, self._head.get("x-forwarded-for"))
        self._reply = Reply(send, (*door.headers, (b"x-request-id", str(self._request_id).encode())))
        self._bearer = ""

    async def run(self) -> None:
        with bind_context(RequestContext(self._request_id, self._source)):
            try:
                await self._run()
            except bodies.Gone:
                log.debug("a client went away before its request was whole")

    async def _run(self) -> None:
        refused = self._refused()
        body = refused or await bodies.read(self._receive)
        asked = body if isinstance(body, Refusal) else request_parser.read(self._head, body)
        if isinstance(asked, Refusal):
            await self._reply.refuse(asked)
        elif isinstance(asked, Notification):
            await self._reply.whole(202, b"")
        elif asked.method == "tools/call":
            await self._call(asked)
        else:
            await self._look(asked)

    def _refused(self) -> Refusal | None:
        """All that is known before the body is read. What is no token of ours is refused without a query."""
        house = self._door.house
        refused = admission.refused(self._method, self._head, house)
        if refused is not None:
            return refused
        shown = admission.bearer(self._head, house)
        if isinstance(shown, Refusal):
            return shown
        if tokens.parse(shown) is None:
            said = "This is not a Gatehouse token, or a part of it is missing."
            return admission.unauthenticated(house, "malformed", said)
        self._bearer = shown
        return admission.unfit(self._head)

    async def _look(self, asked: Request) -> None:
        """Discovery and lists: both only for those who may come in."""
        try:
            found = await self._door.gateway.list_tools(self._bearer, server=self._server, source=self._source)
            answer = self._looked(asked, found)
        except Exception as error:
            answer = mcp_renderer.failure(error)
        await self._answer(asked, answer)

    def _looked(self, asked: Request, found: Listing | Unauthenticated) -> dict[str, Any] | Refusal:
        if isinstance(found, Unauthenticated):
            return admission.unauthenticated(self._door.house, found.reason, found.message)
        return self._listed(asked, found)

    def _listed(self, asked: Request, listing: Listing) -> dict[str, Any] | Refusal:
        if asked.method == "server/discover":
            return results.discovered(self._door.info)
        now, cursors = time.time(), SignedCursors(sign, str(listing.identity_id), self._server)
        after = "" if asked.cursor is None else cursors.decode_cursor(asked.cursor, now=now)
        if after is None:
            said = "This cursor is not one that a list gave you here, or it is too old. Begin again without one."
            return errors.protocol(errors.INVALID_PARAMS, said)
        return results.tools_page(listing.tools, cursors, after=after, now=now, info=self._door.info)

    async def _call(self, asked: Request) -> None:
        try:
            outcome = await self._outcome(asked)
        except Exception as error:
            await self._answer(asked, mcp_renderer.failure(error))
            return
        if outcome is not None:
            told = mcp_renderer.told(outcome, self._door.house, self._door.info, asked.capabilities)
            await self._answer(asked, told, mcp_renderer.numbers(outcome))

    async def _outcome(self, asked: Request) -> Outcome | None:
        """What became of the call; None when the client went away, which cancelled it."""
        quiet = asyncio.get_running_loop().call_later(QUIET_SECONDS, self._reply.keep_alive)
        try:
            outcome = await clients.until_gone(self._receive, self._door.gateway.call_tool(self._ask(asked)))
        finally:
            quiet.cancel()
        if outcome is None:
            self._reply.abandon()
        return outcome

    def _ask(self, asked: Request) -> Ask:
        return Ask(
            bearer=self._bearer,
            server=self._server,
            tool=asked.name,
            arguments=asked.arguments,
            request_id=self._request_id,
            source=self._source,
            door="mcp",
            context=rest_renderer.circumstances(asked.context),
            on_progress=None if asked.progress_token is None else self._progressing(Progress(asked.progress_token)),
            protocol_version=asked.version,
        )

    def _progressing(self, progress: Progress) -> OnProgress:
        async def on_progress(said: dict[str, Any]) -> None:
            notification = progress.next(said, now=time.monotonic())
            if notification is not None:
                self._reply.event(results.encode(notification))

        return on_progress

    async def _answer(self, asked: Request, answer: dict[str, Any] | Refusal, headers: Pairs = ()) -> None:
        if isinstance(answer, Refusal):
            refusal = answer.to(asked.id)
            await self._reply.whole(refusal.status, results.encode(refusal.envelope), (*refusal.headers, *headers))
            return
        await self._reply.whole(200, results.encode(results.envelope(asked.id, answer)), headers)
