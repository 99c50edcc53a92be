"""Handles one HTTP request to an MCP endpoint: checks its headers, and answers it if it is of protocol 2026-07-28."""

import asyncio
import logging
from typing import Any

from common.asgi import client_disconnect
from common.asgi.bodies import ClientDisconnected
from common.asgi.headers import HeaderPairs
from common.context import RequestContext, bind_context
from mcp.gateway.types import CallResult
from mcp.server import mcp_renderer, message_builder, request_headers, request_parser
from mcp.server.errors import ErrorResponse
from mcp.server.exchange import McpExchange
from mcp.server.handshake import message_parser
from mcp.server.handshake.session_handler import SessionRequestHandler
from mcp.server.request_parser import McpNotification, McpRequest
from mcp.server.response_writer import KEEP_ALIVE_SECONDS

log = logging.getLogger(__name__)


class McpRequestHandler:
    """Handles one HTTP request to an MCP endpoint, from its headers to the end of the response."""

    def __init__(self, exchange: McpExchange) -> None:
        self._exchange = exchange
        self._context, self._writer = exchange.context, exchange.writer

    async def run(self) -> None:
        with bind_context(RequestContext(self._exchange.request_id, self._exchange.source)):
            try:
                await self._run()
            except ClientDisconnected:
                log.debug("a client went away before its request was whole")

    async def _run(self) -> None:
        error_response = self._check_headers()
        if error_response is not None:
            await self._writer.send_error(error_response)
        elif self._exchange.method == "DELETE":
            await SessionRequestHandler(self._exchange).end_session()
        else:
            await self._answer(await self._exchange.read_message())

    async def _answer(self, message: Any) -> None:
        if isinstance(message, ErrorResponse):
            await self._writer.send_error(message)
        elif message_parser.uses_handshake(self._exchange.headers, message):
            await SessionRequestHandler(self._exchange).answer(message)
        else:
            await self._answer_request(request_parser.parse_request(self._exchange.headers, message))

    async def _answer_request(self, request: McpRequest | McpNotification | ErrorResponse) -> None:
        if isinstance(request, ErrorResponse):
            await self._writer.send_error(request)
        elif isinstance(request, McpNotification):
            await self._writer.send_body(202, b"")
        elif request.method == "tools/call":
            await self._answer_call(request)
        else:
            await self._answer_listing(request)

    def _check_headers(self) -> ErrorResponse | None:
        """Check the headers before the body is read."""
        exchange = self._exchange
        return (
            request_headers.check_request(exchange.method, exchange.headers, self._context.settings)
            or exchange.check_bearer()
            or (request_headers.check_content_headers(exchange.headers) if exchange.method == "POST" else None)
        )

    async def _answer_listing(self, request: McpRequest) -> None:
        """Answer discovery and tool lists, which both require a valid token."""
        try:
            answer = await self._load_listing(request)
        except Exception as error:
            answer = mcp_renderer.render_failure(error)
        await self._send_answer(request, answer)

    async def _load_listing(self, request: McpRequest) -> dict[str, Any] | ErrorResponse:
        if request.method == "tools/list":
            return await self._exchange.load_tools_page(request)
        listing = await self._exchange.load_tools()
        if isinstance(listing, ErrorResponse):
            return listing
        return message_builder.build_discovery_result(self._context.server_info)

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
        keep_alive_timer = asyncio.get_running_loop().call_later(KEEP_ALIVE_SECONDS, self._writer.keep_alive)
        try:
            call_result = await client_disconnect.run_until_disconnect(
                self._exchange.receive, self._context.gateway.call_tool(self._exchange.build_call(request))
            )
        finally:
            keep_alive_timer.cancel()
        if call_result is None:
            self._writer.abandon()
        return call_result

    async def _send_answer(
        self, request: McpRequest, answer: dict[str, Any] | ErrorResponse, headers: HeaderPairs = ()
    ) -> None:
        if isinstance(answer, ErrorResponse):
            await self._writer.send_error(answer.with_id(request.id), headers)
            return
        await self._writer.send_body(
            200, message_builder.encode_message(message_builder.wrap_result(request.id, answer)), headers
        )
