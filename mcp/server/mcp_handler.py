"""Handles one HTTP request to an MCP endpoint, from its headers to the end of the response."""

import asyncio
import logging
import time
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from common import crypto
from common.api.signed_cursors import SignedCursors
from common.asgi import client_address
from common.asgi.bodies import BodyTimeout, ClientDisconnected, Receive, read_body
from common.asgi.client_disconnect import run_until_disconnect
from common.asgi.headers import HeaderPairs
from common.context import RequestContext, bind_context
from common.ids import parse_uuid, uuid7
from mcp.client.transports import OnProgress
from mcp.gateway.tool_list import ToolListing
from mcp.gateway.types import CallRequest, CallResult, split_tool_name
from mcp.server import errors, mcp_renderer, message_builder, request_headers, request_parser, rest_renderer
from mcp.server.errors import ErrorResponse
from mcp.server.message_builder import ProgressNotificationBuilder
from mcp.server.request_headers import EndpointSettings
from mcp.server.request_parser import McpNotification, McpRequest
from mcp.server.response_writer import KEEP_ALIVE_SECONDS, McpResponseWriter
from nhi.authorization.authentication import Unauthenticated
from nhi.credentials import tokens
from nhi.credentials.tokens import ParsedBearerToken

log = logging.getLogger(__name__)
sign_cursor = partial(crypto.sign, "mcp-cursor")


class GatewayBackend(Protocol):
    """What the MCP endpoint needs from the gateway: to call and to list tools, as in `mcp.gateway.pipeline`."""

    async def call_tool(self, request: CallRequest) -> CallResult: ...

    async def list_tools(self, bearer: str, *, server: str = "", source: str = "") -> ToolListing | Unauthenticated: ...


@dataclass(frozen=True)
class ServerContext:
    """What all requests to the MCP endpoint share: gateway, settings, `serverInfo` and response headers."""

    gateway: GatewayBackend
    settings: EndpointSettings
    #: The `serverInfo` of results.
    server_info: dict[str, str]
    #: Headers of every response.
    headers: HeaderPairs


class McpRequestHandler:
    """Handles one HTTP request to an MCP endpoint, from its headers to the end of the response."""

    def __init__(self, context: ServerContext, server: str, scope: dict[str, Any], receive: Receive, send: Any) -> None:
        self._context, self._server, self._receive = context, server, receive
        self._method: str = scope["method"]
        self._headers = request_headers.read_headers(scope["headers"])
        self._request_id = parse_uuid(self._headers.get("x-request-id")) or uuid7()
        self._source = client_address.find_source(scope, self._headers.get("x-forwarded-for"))
        self._response_writer = McpResponseWriter(
            send, (*context.headers, (b"x-request-id", str(self._request_id).encode()))
        )
        self._bearer = ""
        self._token: ParsedBearerToken | None = None

    async def run(self) -> None:
        with bind_context(RequestContext(self._request_id, self._source)):
            try:
                await self._run()
            except ClientDisconnected:
                log.debug("a client went away before its request was whole")

    async def _run(self) -> None:
        request = self._check_headers() or await self._read_request()
        if isinstance(request, ErrorResponse):
            await self._response_writer.send_error(request)
        elif isinstance(request, McpNotification):
            await self._response_writer.send_body(202, b"")
        elif request.method == "tools/call":
            await self._answer_call(request)
        else:
            await self._answer_listing(request)

    def _check_headers(self) -> ErrorResponse | None:
        """Check the headers before the body is read. Malformed tokens are refused without a query."""
        settings = self._context.settings
        error_response = request_headers.check_request(self._method, self._headers, settings)
        if error_response is not None:
            return error_response
        bearer = request_headers.read_bearer(self._headers, settings)
        if isinstance(bearer, ErrorResponse):
            return bearer
        self._token = tokens.parse(bearer)
        if self._token is None:
            message = "This is not a Gatehouse token, or a part of it is missing."
            return request_headers.unauthenticated_error(settings, "malformed", message)
        self._bearer = bearer
        return request_headers.check_content_headers(self._headers)

    async def _read_request(self) -> McpRequest | McpNotification | ErrorResponse:
        try:
            body = await read_body(self._receive, max_bytes=request_parser.MAX_BODY_BYTES)
        except BodyTimeout as error:
            return errors.http_error(408, str(error), (b"connection", b"close"))
        return request_parser.parse_request(self._headers, body)

    async def _answer_listing(self, request: McpRequest) -> None:
        """Answer discovery and tool lists, which both require a valid token."""
        try:
            listing = await self._context.gateway.list_tools(self._bearer, server=self._server, source=self._source)
            answer = self._render_listing(request, listing)
        except Exception as error:
            answer = mcp_renderer.render_failure(error)
        await self._send_answer(request, answer)

    def _render_listing(
        self, request: McpRequest, listing: ToolListing | Unauthenticated
    ) -> dict[str, Any] | ErrorResponse:
        if isinstance(listing, Unauthenticated):
            return request_headers.unauthenticated_error(self._context.settings, listing.reason, listing.message)
        return self._build_listing(request, listing)

    def _build_listing(self, request: McpRequest, listing: ToolListing) -> dict[str, Any] | ErrorResponse:
        if request.method == "server/discover":
            return message_builder.build_discovery_result(self._context.server_info)
        now, cursors = time.time(), SignedCursors(sign_cursor, str(listing.identity_id), self._server)
        after = "" if request.cursor is None else cursors.decode_cursor(request.cursor, now=now)
        if after is None:
            message = "This cursor is not one that a list gave you here, or it is too old. Begin again without one."
            return errors.protocol_error(errors.INVALID_PARAMS, message)
        return message_builder.build_tools_page(
            listing.tools, cursors, after=after, now=now, info=self._context.server_info
        )

    async def _answer_call(self, request: McpRequest) -> None:
        try:
            call_result = await self._run_call(request)
        except Exception as error:
            await self._send_answer(request, mcp_renderer.render_failure(error))
            return
        if call_result is not None:
            answer = mcp_renderer.render_result(
                call_result, self._context.settings, self._context.server_info, request.capabilities
            )
            await self._send_answer(request, answer, mcp_renderer.build_quota_headers(call_result))

    async def _run_call(self, request: McpRequest) -> CallResult | None:
        """Run the call. Return None if the client disconnected, which cancels the call."""
        keep_alive_timer = asyncio.get_running_loop().call_later(KEEP_ALIVE_SECONDS, self._response_writer.keep_alive)
        try:
            call_result = await run_until_disconnect(
                self._receive, self._context.gateway.call_tool(self._build_request(request))
            )
        finally:
            keep_alive_timer.cancel()
        if call_result is None:
            self._response_writer.abandon()
        return call_result

    def _build_request(self, request: McpRequest) -> CallRequest:
        server, tool = (self._server, request.name) if self._server else split_tool_name(request.name)
        assert self._token is not None  # requests without a token are refused by their headers
        return CallRequest(
            self._token,
            server,
            tool,
            arguments=request.arguments,
            request_id=self._request_id,
            source=self._source,
            entry_point="mcp",
            context=rest_renderer.build_call_context(request.context),
            on_progress=None
            if request.progress_token is None
            else self._progress_callback(ProgressNotificationBuilder(request.progress_token)),
        )

    def _progress_callback(self, notifier: ProgressNotificationBuilder) -> OnProgress:
        async def on_progress(update: dict[str, Any]) -> None:
            notification = notifier.build_notification(update, now=time.monotonic())
            if notification is not None:
                self._response_writer.send_event(message_builder.encode_message(notification))

        return on_progress

    async def _send_answer(
        self, request: McpRequest, answer: dict[str, Any] | ErrorResponse, headers: HeaderPairs = ()
    ) -> None:
        if isinstance(answer, ErrorResponse):
            error_response = answer.with_id(request.id)
            await self._response_writer.send_body(
                error_response.status,
                message_builder.encode_message(error_response.envelope),
                (*error_response.headers, *headers),
            )
            return
        await self._response_writer.send_body(
            200, message_builder.encode_message(message_builder.wrap_result(request.id, answer)), headers
        )
