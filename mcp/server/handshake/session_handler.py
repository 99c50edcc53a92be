"""Handles one HTTP request of a handshake client: it starts a session, is served in one, or ends one."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from common.asgi import client_disconnect
from common.asgi.headers import HeaderPairs
from common.executors import run_in_thread
from mcp.gateway.batch import active_calls
from mcp.server import errors, mcp_renderer, message_builder, request_headers
from mcp.server.errors import ErrorResponse, RequestId
from mcp.server.exchange import McpExchange
from mcp.server.handshake import message_parser, result_conversion, sessions
from mcp.server.handshake.message_parser import (
    CancelNotification,
    PostedResponse,
    SessionMessage,
)
from mcp.server.handshake.sessions import CheckedSession, SessionNotFound, SessionRequired
from mcp.server.request_parser import McpRequest
from mcp.server.response_writer import KEEP_ALIVE_SECONDS
from nhi.authorization.authentication import Unauthenticated

T = TypeVar("T")
JSON_RPC_CODES = range(-32768, -31999)
#: Errors of the envelope have the status 400. Every other JSON-RPC error is an answer within a session: 200.
ENVELOPE_CODES = frozenset({errors.PARSE_ERROR, errors.INVALID_REQUEST})


@dataclass(frozen=True)
class MessageAnswer:
    """The answer to one message of a session: a JSON-RPC response with its HTTP status, or nothing."""

    body: dict[str, Any] | None
    status: int = 200
    headers: HeaderPairs = ()


#: The answer to a notification.
ACCEPTED = MessageAnswer(None, 202)
#: A cancelled call is not answered. Its HTTP response is an event stream without events.
CANCELLED = MessageAnswer(None)


class SessionRequestHandler:
    """Handles one HTTP request of a handshake client whose headers have been checked."""

    def __init__(self, exchange: McpExchange) -> None:
        self._exchange, self._writer = exchange, exchange.writer
        self._context = exchange.context

    async def end_session(self) -> None:
        """Answer DELETE."""
        session = await self._check_session()
        if isinstance(session, ErrorResponse):
            await self._writer.send_error(session)
            return
        failure = await self._run_blocking(partial(sessions.end, session))
        await (self._writer.send_body(200, b"") if failure is None else self._writer.send_error(failure))

    async def answer(self, message: Any) -> None:
        """Answer a posted JSON value."""
        if message_parser.is_initialize(message):
            await self._start_session(message)
            return
        session = await self._check_session()
        if isinstance(session, ErrorResponse):
            await self._writer.send_error(session.with_id(message_parser.read_request_id(message)))
        elif isinstance(message, list):
            await self._answer_batch(session, message)
        else:
            await self._answer_message(session, message_parser.parse_message(message, session.claims.version))

    async def _start_session(self, message: dict[str, Any]) -> None:
        request = message_parser.parse_initialize(message)
        if isinstance(request, ErrorResponse):
            await self._writer.send_error(request)
            return
        session_id = await self._run_blocking(
            partial(
                sessions.start,
                self._exchange.bearer,
                server=self._exchange.server,
                version=request.version,
                capabilities=request.capabilities,
            )
        )
        if isinstance(session_id, ErrorResponse):
            await self._writer.send_error(session_id.with_id(request.id))
            return
        result = result_conversion.build_initialize_result(request.version, self._context.server_info)
        body = message_builder.encode_message(message_builder.wrap_result(request.id, result))
        await self._writer.send_body(200, body, ((b"mcp-session-id", session_id.encode()),))

    async def _check_session(self) -> CheckedSession | ErrorResponse:
        headers = self._exchange.headers
        # A header that occurs twice names no session: readers of the first and of the last would differ.
        session_id = None if "mcp-session-id" in headers.repeated else headers.values.get("mcp-session-id")
        session = await self._run_blocking(
            partial(sessions.check, self._exchange.bearer, session_id, server=self._exchange.server)
        )
        if isinstance(session, ErrorResponse):
            return session
        served_version = session.claims.version
        version = headers.values.get("mcp-protocol-version", served_version)
        if version != served_version or "mcp-protocol-version" in headers.repeated:
            message = f"The header MCP-Protocol-Version must be there once and name the session's {served_version}."
            return errors.protocol_error(errors.INVALID_REQUEST, message, reason="version_mismatch")
        return session

    async def _answer_message(self, session: CheckedSession, message: SessionMessage) -> None:
        answers = await self._run(session, [message])
        if answers is None:
            return
        [answer] = answers
        if answer is CANCELLED:
            await self._writer.send_empty_stream()
            return
        body = b"" if answer.body is None else message_builder.encode_message(answer.body)
        await self._writer.send_body(answer.status, body, answer.headers)

    async def _answer_batch(self, session: CheckedSession, values: list[Any]) -> None:
        messages = message_parser.parse_batch(values, session.claims.version)
        if isinstance(messages, ErrorResponse):
            await self._writer.send_error(messages)
            return
        answers = await self._run(session, messages)
        if answers is None:
            return
        # A posted response gets no answer among others: it has no id that an answer could name.
        bodies = [
            answer.body
            for answer, message in zip(answers, messages, strict=True)
            if answer.body is not None and not isinstance(message, PostedResponse)
        ]
        if bodies:
            await self._writer.send_body(200, message_builder.encode_message(bodies))
        elif CANCELLED in answers:
            await self._writer.send_empty_stream()
        else:
            await self._writer.send_body(202, b"")

    async def _run(self, session: CheckedSession, messages: Sequence[SessionMessage]) -> list[MessageAnswer] | None:
        """Handle the messages side by side. Return None if the client has disconnected; calls then continue."""
        keep_alive_timer = asyncio.get_running_loop().call_later(KEEP_ALIVE_SECONDS, self._writer.keep_alive)
        try:
            answers = await client_disconnect.run_beyond_disconnect(
                self._exchange.receive, self._handle_all(session, messages)
            )
        except client_disconnect.ProcessStopping as error:
            failure = mcp_renderer.render_failure(error)
            return [self._build_error_answer(failure, _request_id_of(message)) for message in messages]
        finally:
            keep_alive_timer.cancel()
        if answers is None:
            self._writer.abandon()
        return answers

    async def _handle_all(self, session: CheckedSession, messages: Sequence[SessionMessage]) -> list[MessageAnswer]:
        # Each message has its own task, because a call that is stopped cancels its task.
        return await asyncio.gather(*(self._handle(session, message) for message in messages))

    async def _handle(self, session: CheckedSession, message: SessionMessage) -> MessageAnswer:
        if isinstance(message, ErrorResponse):
            return self._build_error_answer(message)
        if isinstance(message, PostedResponse):
            return self._build_error_answer(errors.http_error(404, "No request of the server waits for this response."))
        if isinstance(message, McpRequest):
            try:
                return await self._handle_request(session, message)
            except Exception as error:
                return self._build_answer(message.id, self._render_error(error))
        if isinstance(message, CancelNotification):
            cancel_key = session.make_cancel_key(message.request_id)
            await self._run_blocking(partial(active_calls.cancel_call, session.claims.identity_id, cancel_key))
        return ACCEPTED

    async def _handle_request(self, session: CheckedSession, request: McpRequest) -> MessageAnswer:
        if request.method == "ping":
            return self._build_answer(request.id, {})
        if request.method == "tools/list":
            return self._build_answer(request.id, await self._exchange.load_tools_page(request))
        call = self._exchange.build_call(request, cancel_key=session.make_cancel_key(request.id))
        call_result = await self._context.gateway.call_tool(call)
        if call_result.reason == active_calls.CANCEL_REASON:
            return CANCELLED
        answer = mcp_renderer.render_result(
            call_result,
            self._context.settings,
            self._context.server_info,
            # The error for missing capabilities is of 2026-07-28.
            frozenset(call_result.required_capabilities),
        )
        return self._build_answer(request.id, answer, mcp_renderer.build_quota_headers(call_result))

    async def _run_blocking(self, work: Callable[[], T]) -> T | ErrorResponse:
        try:
            return await run_in_thread(work)
        except Exception as error:
            return self._render_error(error)

    def _build_answer(
        self, request_id: RequestId, answer: dict[str, Any] | ErrorResponse, headers: HeaderPairs = ()
    ) -> MessageAnswer:
        if isinstance(answer, ErrorResponse):
            return self._build_error_answer(answer, request_id, headers)
        body = message_builder.wrap_result(request_id, result_conversion.convert_result(answer))
        return MessageAnswer(body, headers=headers)

    def _build_error_answer(
        self, error: ErrorResponse, request_id: RequestId | None = None, headers: HeaderPairs = ()
    ) -> MessageAnswer:
        is_answer = error.code in JSON_RPC_CODES and error.code not in ENVELOPE_CODES
        error_with_id = error if request_id is None else error.with_id(request_id)
        return MessageAnswer(error_with_id.envelope, 200 if is_answer else error.status, (*error.headers, *headers))

    def _render_error(self, error: Exception) -> ErrorResponse:
        if isinstance(error, Unauthenticated):
            return request_headers.unauthenticated_error(self._context.settings, error.reason, error.message)
        if isinstance(error, SessionRequired):
            return errors.protocol_error(errors.INVALID_REQUEST, error.message, reason=error.code)
        if isinstance(error, SessionNotFound):
            return errors.http_error(404, error.message, reason=error.code)
        return mcp_renderer.render_failure(error)


def _request_id_of(message: SessionMessage) -> RequestId | None:
    return message.id if isinstance(message, McpRequest) else None
