"""One HTTP request to an MCP endpoint and its response: what the handlers of all protocol revisions share."""

import time
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol
from uuid import UUID

from common import crypto
from common.api.signed_cursors import SignedCursors
from common.asgi import client_address
from common.asgi.bodies import BodyTimeout, Receive, read_body
from common.asgi.headers import HeaderPairs
from common.ids import parse_uuid, uuid7
from mcp.client.transports import OnProgress
from mcp.gateway.tool_list import ToolListing
from mcp.gateway.types import CallRequest, CallResult, split_tool_name
from mcp.server import errors, message_builder, request_headers, request_parser, rest_renderer
from mcp.server.errors import ErrorResponse
from mcp.server.message_builder import ProgressNotificationBuilder
from mcp.server.request_headers import EndpointSettings
from mcp.server.request_parser import McpRequest
from mcp.server.response_writer import McpResponseWriter
from nhi.authorization.authentication import Unauthenticated
from nhi.credentials import tokens
from nhi.credentials.tokens import ParsedBearerToken

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


class McpExchange:
    """One HTTP request to an MCP endpoint, with the writer of its response."""

    def __init__(self, context: ServerContext, server: str, scope: dict[str, Any], receive: Receive, send: Any) -> None:
        self.context, self.server, self.receive = context, server, receive
        self.method: str = scope["method"]
        self.headers = request_headers.read_headers(scope["headers"])
        self.request_id: UUID = parse_uuid(self.headers.get("x-request-id")) or uuid7()
        self.source = client_address.find_source(scope, self.headers.get("x-forwarded-for"))
        self.writer = McpResponseWriter(send, (*context.headers, (b"x-request-id", str(self.request_id).encode())))
        self.bearer = ""
        self._token: ParsedBearerToken | None = None

    def check_bearer(self) -> ErrorResponse | None:
        """Read the token. Malformed tokens are refused without a query."""
        settings = self.context.settings
        bearer = request_headers.read_bearer(self.headers, settings)
        if isinstance(bearer, ErrorResponse):
            return bearer
        self._token = tokens.parse(bearer)
        if self._token is None:
            message = "This is not a Gatehouse token, or a part of it is missing."
            return request_headers.unauthenticated_error(settings, "malformed", message)
        self.bearer = bearer
        return None

    async def read_message(self) -> Any:
        """Read the body's JSON value. Return an `ErrorResponse` if it is late, too long or not strict JSON."""
        try:
            body = await read_body(self.receive, max_bytes=request_parser.MAX_BODY_BYTES)
        except BodyTimeout as error:
            return errors.http_error(408, str(error), (b"connection", b"close"))
        return request_parser.load_message(body)

    async def load_tools_page(self, request: McpRequest) -> dict[str, Any] | ErrorResponse:
        listing = await self.load_tools()
        if isinstance(listing, ErrorResponse):
            return listing
        now, cursors = time.time(), SignedCursors(sign_cursor, str(listing.identity_id), self.server)
        after = "" if request.cursor is None else cursors.decode_cursor(request.cursor, now=now)
        if after is None:
            message = "This cursor is not one that a list gave you here, or it is too old. Begin again without one."
            return errors.protocol_error(errors.INVALID_PARAMS, message)
        return message_builder.build_tools_page(
            listing.tools, cursors, after=after, now=now, info=self.context.server_info
        )

    async def load_tools(self) -> ToolListing | ErrorResponse:
        listing = await self.context.gateway.list_tools(self.bearer, server=self.server, source=self.source)
        if isinstance(listing, Unauthenticated):
            return request_headers.unauthenticated_error(self.context.settings, listing.reason, listing.message)
        return listing

    def build_call(self, request: McpRequest, *, cancel_key: str = "") -> CallRequest:
        server, tool = (self.server, request.name) if self.server else split_tool_name(request.name)
        assert self._token is not None  # requests without a token are refused by their headers
        return CallRequest(
            self._token,
            server,
            tool,
            arguments=request.arguments,
            request_id=self.request_id,
            source=self.source,
            entry_point="mcp",
            context=rest_renderer.build_call_context(request.context),
            on_progress=None
            if request.progress_token is None
            else self._progress_callback(ProgressNotificationBuilder(request.progress_token)),
            cancel_key=cancel_key,
        )

    def _progress_callback(self, notifier: ProgressNotificationBuilder) -> OnProgress:
        async def on_progress(update: dict[str, Any]) -> None:
            notification = notifier.build_notification(update, now=time.monotonic())
            if notification is not None:
                self.writer.send_event(message_builder.encode_message(notification))

        return on_progress
