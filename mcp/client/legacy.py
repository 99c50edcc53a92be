"""A server of the handshake revisions over Streamable HTTP: one session, opened when first asked."""

import asyncio
import itertools
import re
from dataclasses import dataclass

from common.egress.request_body import SentFlag
from mcp.client.answering import Errands, Hear, answer, hear_all, hearing, hearing_changes, ignore
from mcp.client.connection import Connection, again_if_closed
from mcp.client.failing import within
from mcp.client.resuming import Resumable
from mcp.client.sending import Sender
from mcp.client.types import Era, OnChange, OnProgress
from mcp.protocol import jsonrpc, legacy, modern
from mcp.protocol.errors import UpstreamError, UpstreamFault, UpstreamTrouble
from mcp.protocol.jsonrpc import Message
from mcp.protocol.progress import with_token

SESSION_ID = re.compile(r"[\x21-\x7E]{1,1024}")


@dataclass(frozen=True)
class Session:
    id: str
    welcome: legacy.Welcome

    @property
    def headers(self) -> dict[str, str]:
        found = {"Accept": modern.ACCEPT, "MCP-Protocol-Version": self.welcome.protocol_version}
        if self.id:
            found["Mcp-Session-Id"] = self.id
        return found


class SessionGone(Exception):
    """The server has forgotten the session, and did nothing with the request."""


class Legacy(Connection):
    era: Era = "legacy"

    def __init__(self, sender: Sender, errands: Errands, *, handshake_timeout: float) -> None:
        self._sender = sender
        self._errands = errands
        self._handshake_timeout = handshake_timeout
        # Never started again, so that a late answer can meet no other request, in this session or the next.
        self._ids = itertools.count(1)
        self._session: Session | None = None
        self._opening = asyncio.Lock()

    async def session(self) -> Session:
        """The session; whoever comes first opens it for all."""
        if self._session is None:
            async with self._opening:
                if self._session is None:
                    self._session = await self._open()
        return self._session

    async def _open(self) -> Session:
        async with within(self._handshake_timeout, SentFlag()):
            session = await again_if_closed(self._initialize, legacy.INITIALIZE)
            await self._sender.tell(legacy.INITIALIZED, session.headers)
            return session

    async def _initialize(self, params: Message) -> Session:
        request_id, sent = next(self._ids), SentFlag()
        message = jsonrpc.request(request_id, "initialize", params)
        response = await self._sender.post(message, {"Accept": modern.ACCEPT}, sent)
        session_id = response.headers.get("Mcp-Session-Id", "")
        welcome = legacy.welcome(await answer(response, request_id, sent=sent, hear=ignore, errands=self._errands))
        if session_id and not SESSION_ID.fullmatch(session_id):
            raise UpstreamFault("protocol", "The server's session id is not visible ASCII.", sent=True)
        return Session(session_id, welcome)

    async def request(
        self,
        method: str,
        params: Message,
        *,
        sent: SentFlag,
        meta: Message | None = None,
        on_progress: OnProgress | None = None,
    ) -> Message:
        try:
            return await self._once(await self.session(), method, params, sent, meta, on_progress)
        except SessionGone:
            # Refused, so it may be sent again; a server that forgets each session at once is not asked a third time.
            sent.is_set = False
        try:
            return await self._once(await self.session(), method, params, sent, meta, on_progress)
        except SessionGone:
            detail = "The server forgets its sessions as soon as it has opened them."
            raise UpstreamFault("protocol", detail, sent=False) from None

    async def _once(
        self,
        session: Session,
        method: str,
        params: Message,
        sent: SentFlag,
        meta: Message | None,
        on_progress: OnProgress | None,
    ) -> Message:
        request_id = next(self._ids)
        said = with_token(meta, None if on_progress is None else request_id)
        message = legacy.envelope(request_id, method, params, meta=said)
        try:
            response = await self._sender.post(message, session.headers, sent)
            stream = Resumable(self._sender, session.headers, self._errands)
            hear = self._hear(session, hearing(on_progress, request_id))
            return await stream.answer(response, request_id, sent=sent, hear=hear)
        except asyncio.CancelledError:
            # A connection that closes means nothing in these revisions.
            if sent.is_set:
                self._tell(session, legacy.cancelled(request_id, "Nobody waits for the answer any more."))
            raise
        except UpstreamTrouble as refused:
            if self._forget_if_gone(session, refused):
                raise SessionGone from refused
            raise

    def _forget_if_gone(self, session: Session, refused: UpstreamTrouble) -> bool:
        error = refused if isinstance(refused, UpstreamError) else None
        gone = bool(session.id) and legacy.session_is_gone(refused.status, error)
        if gone and self._session is session:
            self._session = None
        return gone

    def _hear(self, session: Session, told: Hear) -> Hear:
        async def hear(message: Message) -> None:
            reply = legacy.reply(message)
            if reply is None:
                await told(message)
            else:
                self._tell(session, reply)

        return hear

    def _tell(self, session: Session, message: Message) -> None:
        self._errands.run(self._sender.tell(message, session.headers))

    async def watch(self, on_change: OnChange) -> None:
        """The stream for what belongs to no request. Many servers have none, and answer 405."""
        session = await self.session()
        try:
            response = await self._sender.get({**session.headers, "Accept": "text/event-stream"})
        except UpstreamTrouble as refused:
            self._forget_if_gone(session, refused)
            raise
        await hear_all(response, hear=self._hear(session, hearing_changes(on_change)))

    async def close(self) -> None:
        session, self._session = self._session, None
        if session is not None and session.id:
            self._errands.run(self._sender.delete(session.headers))
