"""Handles one MCP request."""

import asyncio
import logging
import time
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from common import crypto
from common.api.signed_cursors import SignedCursors
from common.asgi import clients
from common.asgi.bodies import Receive
from common.asgi.headers import HeaderPairs
from common.context import RequestContext, bind_context
from common.ids import parse_uuid, uuid7
from mcp.client.transports import OnProgress
from mcp.gateway.gateway import CallResult, IncomingCall
from mcp.gateway.tool_list import ToolListing
from mcp.server import admission, bodies, errors, heads, mcp_renderer, request_parser, rest_renderer, results
from mcp.server.admission import EndpointSettings
from mcp.server.errors import ErrorResponse
from mcp.server.progress import ProgressNotifier
from mcp.server.request_parser import McpNotification, McpRequest
from mcp.server.response_writer import KEEP_ALIVE_SECONDS, McpResponseWriter
from nhi.authorization.authentication import Unauthenticated
from nhi.credentials import tokens

log = logging.getLogger(__name__)
sign_cursor = partial(crypto.sign, "mcp-cursor")


class GatewayBackend(Protocol):
    """The interface of `mcp.gateway.gateway`."""

    async def call_tool(self, ask: IncomingCall) -> CallResult: ...

    async def list_tools(self, bearer: str, *, server: str = "", source: str = "") -> ToolListing | Unauthenticated: ...


@dataclass(frozen=True)
class ServerContext:
    """Settings that all requests share."""

    gateway: GatewayBackend
    settings: EndpointSettings
    #: The `serverInfo` of results.
    server_info: dict[str, str]
    #: Headers of every response.
    headers: HeaderPairs


class McpRequestHandler:
    def __init__(self, door: ServerContext, server: str, scope: dict[str, Any], receive: Receive, send: Any) -> None:
        self._context, self._server, self._receive = door, server, receive
        self._method: str = scope["method"]
        self._head = heads.read_headers(scope["headers"])
        self._request_id = parse_uuid(self._head.get("x-request-id")) or uuid7()
        self._source = clients.client_source(scope, self._head.get("x-forwarded-for"))
        self._reply = McpResponseWriter(send, (*door.headers, (b"x-request-id", str(self._request_id).encode())))
        self._bearer = ""

    async def run(self) -> None:
        with bind_context(RequestContext(self._request_id, self._source)):
            try:
                await self._run()
            except bodies.ClientDisconnected:
                log.debug("a client went away before its request was whole")

    async def _run(self) -> None:
        refused = self._check_headers()
        body = refused or await bodies.read_body(self._receive)
        asked = body if isinstance(body, ErrorResponse) else request_parser.parse_request(self._head, body)
        if isinstance(asked, ErrorResponse):
            await self._reply.send_error(asked)
        elif isinstance(asked, McpNotification):
            await self._reply.send_body(202, b"")
        elif asked.method == "tools/call":
            await self._answer_call(asked)
        else:
            await self._answer_listing(asked)

    def _check_headers(self) -> ErrorResponse | None:
        """Check the headers before the body is read. Malformed tokens are refused without a query."""
        house = self._context.settings
        refused = admission.check_request(self._method, self._head, house)
        if refused is not None:
            return refused
        shown = admission.read_bearer(self._head, house)
        if isinstance(shown, ErrorResponse):
            return shown
        if tokens.parse(shown) is None:
            said = "This is not a Gatehouse token, or a part of it is missing."
            return admission.unauthenticated_error(house, "malformed", said)
        self._bearer = shown
        return admission.check_content_headers(self._head)

    async def _answer_listing(self, asked: McpRequest) -> None:
        """Answer discovery and tool lists, which both require a valid token."""
        try:
            found = await self._context.gateway.list_tools(self._bearer, server=self._server, source=self._source)
            answer = self._render_listing(asked, found)
        except Exception as error:
            answer = mcp_renderer.render_failure(error)
        await self._send_answer(asked, answer)

    def _render_listing(
        self, asked: McpRequest, found: ToolListing | Unauthenticated
    ) -> dict[str, Any] | ErrorResponse:
        if isinstance(found, Unauthenticated):
            return admission.unauthenticated_error(self._context.settings, found.reason, found.message)
        return self._build_listing(asked, found)

    def _build_listing(self, asked: McpRequest, listing: ToolListing) -> dict[str, Any] | ErrorResponse:
        if asked.method == "server/discover":
            return results.build_discovery_result(self._context.server_info)
        now, cursors = time.time(), SignedCursors(sign_cursor, str(listing.identity_id), self._server)
        after = "" if asked.cursor is None else cursors.decode_cursor(asked.cursor, now=now)
        if after is None:
            said = "This cursor is not one that a list gave you here, or it is too old. Begin again without one."
            return errors.protocol_error(errors.INVALID_PARAMS, said)
        return results.build_tools_page(listing.tools, cursors, after=after, now=now, info=self._context.server_info)

    async def _answer_call(self, asked: McpRequest) -> None:
        try:
            outcome = await self._run_call(asked)
        except Exception as error:
            await self._send_answer(asked, mcp_renderer.render_failure(error))
            return
        if outcome is not None:
            told = mcp_renderer.render_result(
                outcome, self._context.settings, self._context.server_info, asked.capabilities
            )
            await self._send_answer(asked, told, mcp_renderer.build_quota_headers(outcome))

    async def _run_call(self, asked: McpRequest) -> CallResult | None:
        """Run the call. Return None if the client disconnected, which cancels the call."""
        quiet = asyncio.get_running_loop().call_later(KEEP_ALIVE_SECONDS, self._reply.keep_alive)
        try:
            outcome = await clients.run_until_disconnect(
                self._receive, self._context.gateway.call_tool(self._build_call(asked))
            )
        finally:
            quiet.cancel()
        if outcome is None:
            self._reply.abandon()
        return outcome

    def _build_call(self, asked: McpRequest) -> IncomingCall:
        return IncomingCall(
            bearer=self._bearer,
            server=self._server,
            tool=asked.name,
            arguments=asked.arguments,
            request_id=self._request_id,
            source=self._source,
            entry_point="mcp",
            context=rest_renderer.build_call_context(asked.context),
            on_progress=None
            if asked.progress_token is None
            else self._progress_callback(ProgressNotifier(asked.progress_token)),
            protocol_version=asked.version,
        )

    def _progress_callback(self, progress: ProgressNotifier) -> OnProgress:
        async def on_progress(said: dict[str, Any]) -> None:
            notification = progress.build_notification(said, now=time.monotonic())
            if notification is not None:
                self._reply.send_event(results.encode_message(notification))

        return on_progress

    async def _send_answer(
        self, asked: McpRequest, answer: dict[str, Any] | ErrorResponse, headers: HeaderPairs = ()
    ) -> None:
        if isinstance(answer, ErrorResponse):
            refusal = answer.with_id(asked.id)
            await self._reply.send_body(
                refusal.status, results.encode_message(refusal.envelope), (*refusal.headers, *headers)
            )
            return
        await self._reply.send_body(200, results.encode_message(results.wrap_result(asked.id, answer)), headers)
