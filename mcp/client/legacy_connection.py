"""Connects to servers of the handshake revisions over Streamable HTTP."""

import asyncio
import itertools
import re
from dataclasses import dataclass

import aiohttp

from common.egress import event_stream
from common.egress.tracked_body import SentFlag
from mcp.client.connection import UpstreamConnection, retry_if_closed
from mcp.client.http_exchange import (
    RESULT_LIMIT,
    BackgroundTasks,
    HttpSender,
    MessageListener,
    change_listener,
    deadline,
    ignore_message,
    progress_listener,
    read_answer,
    read_stream,
)
from mcp.client.types import Era, OnChange, OnProgress
from mcp.protocol import jsonrpc, legacy, modern
from mcp.protocol.jsonrpc import Message
from mcp.protocol.progress import add_progress_token
from mcp.protocol.upstream_errors import UpstreamError, UpstreamFailure, UpstreamFault

SESSION_ID = re.compile(r"[\x21-\x7E]{1,1024}")


@dataclass(frozen=True)
class LegacySession:
    """A session that `initialize` opened. The id is empty if the server assigned none."""

    id: str
    initialize_result: legacy.InitializeResult

    @property
    def headers(self) -> dict[str, str]:
        headers = {"Accept": modern.ACCEPT, "MCP-Protocol-Version": self.initialize_result.protocol_version}
        if self.id:
            headers["Mcp-Session-Id"] = self.id
        return headers


class SessionExpired(Exception):
    """The server no longer knows the session and did not process the request."""


class LegacyConnection(UpstreamConnection):
    """A connection over Streamable HTTP to a server of the legacy era. It opens a session when a request needs one."""

    era: Era = "legacy"

    def __init__(self, sender: HttpSender, background_tasks: BackgroundTasks, *, handshake_timeout: float) -> None:
        self._sender = sender
        self._background_tasks = background_tasks
        self._handshake_timeout = handshake_timeout
        # Never reset, so that a late answer matches no other request, in this session or the next.
        self._ids = itertools.count(1)
        self._session: LegacySession | None = None
        self._opening = asyncio.Lock()

    async def session(self) -> LegacySession:
        """Return the session. The first caller opens it."""
        if self._session is None:
            async with self._opening:
                if self._session is None:
                    self._session = await self._open()
        return self._session

    async def _open(self) -> LegacySession:
        async with deadline(self._handshake_timeout, SentFlag()):
            session = await retry_if_closed(self._initialize, legacy.INITIALIZE)
            await self._sender.notify(legacy.INITIALIZED, session.headers)
            return session

    async def _initialize(self, params: Message) -> LegacySession:
        request_id, sent = next(self._ids), SentFlag()
        message = jsonrpc.request(request_id, "initialize", params)
        response = await self._sender.post(message, {"Accept": modern.ACCEPT}, sent)
        session_id = response.headers.get("Mcp-Session-Id", "")
        initialize_result = legacy.parse_initialize_result(
            await read_answer(
                response, request_id, sent=sent, on_message=ignore_message, background_tasks=self._background_tasks
            )
        )
        if session_id and not SESSION_ID.fullmatch(session_id):
            raise UpstreamFault("protocol", "The server's session id is not visible ASCII.", sent=True)
        return LegacySession(session_id, initialize_result)

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
            return await self._request_once(await self.session(), method, params, sent, meta, on_progress)
        except SessionExpired:
            # The request was refused, so it can be sent again, but only once: some servers forget each session at once.
            sent.is_set = False
        try:
            return await self._request_once(await self.session(), method, params, sent, meta, on_progress)
        except SessionExpired:
            detail = "The server forgets its sessions as soon as it has opened them."
            raise UpstreamFault("protocol", detail, sent=False) from None

    async def _request_once(
        self,
        session: LegacySession,
        method: str,
        params: Message,
        sent: SentFlag,
        meta: Message | None,
        on_progress: OnProgress | None,
    ) -> Message:
        request_id = next(self._ids)
        request_meta = add_progress_token(meta, None if on_progress is None else request_id)
        message = legacy.build_request(request_id, method, params, meta=request_meta)
        try:
            response = await self._sender.post(message, session.headers, sent)
            stream = ResumableResponse(self._sender, session.headers, self._background_tasks)
            on_message = self._reply_listener(session, progress_listener(on_progress, request_id))
            return await stream.read_answer(response, request_id, sent=sent, on_message=on_message)
        except asyncio.CancelledError:
            # In these revisions, closing the connection does not cancel the request.
            if sent.is_set:
                self._send_in_background(
                    session, legacy.cancelled_notification(request_id, "Nobody waits for the answer any more.")
                )
            raise
        except UpstreamFailure as failure:
            if self._drop_expired_session(session, failure):
                raise SessionExpired from failure
            raise

    def _drop_expired_session(self, session: LegacySession, failure: UpstreamFailure) -> bool:
        error = failure if isinstance(failure, UpstreamError) else None
        is_expired = bool(session.id) and legacy.session_is_gone(failure.status, error)
        if is_expired and self._session is session:
            self._session = None
        return is_expired

    def _reply_listener(self, session: LegacySession, on_message: MessageListener) -> MessageListener:
        async def handle_message(message: Message) -> None:
            reply = legacy.build_reply(message)
            if reply is None:
                await on_message(message)
            else:
                self._send_in_background(session, reply)

        return handle_message

    def _send_in_background(self, session: LegacySession, message: Message) -> None:
        self._background_tasks.run(self._sender.notify(message, session.headers))

    async def watch(self, on_change: OnChange) -> None:
        """Listen on the stream for messages that belong to no request. Many servers have none and answer 405."""
        session = await self.session()
        try:
            response = await self._sender.get({**session.headers, "Accept": "text/event-stream"})
        except UpstreamFailure as failure:
            self._drop_expired_session(session, failure)
            raise
        await read_stream(response, on_message=self._reply_listener(session, change_listener(on_change)))

    async def close(self) -> None:
        session, self._session = self._session, None
        if session is not None and session.id:
            self._background_tasks.run(self._sender.delete(session.headers))


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
        parser = event_stream.EventStreamParser(RESULT_LIMIT)
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

    async def _reopen_stream(
        self, parser: event_stream.EventStreamParser, fault: UpstreamFault
    ) -> aiohttp.ClientResponse:
        await asyncio.sleep(max(MIN_PAUSE_SECONDS, RESUME_PAUSE_SECONDS if parser.retry is None else parser.retry))
        headers = {**self.headers, "Accept": "text/event-stream", "Last-Event-ID": parser.last_id}
        try:
            return await self.sender.get(headers)
        except UpstreamFailure:
            # This includes an expired session: the call may have run in it.
            raise fault from None
