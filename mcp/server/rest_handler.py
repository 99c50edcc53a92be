"""Handles tool calls over REST before Django, whose request handler costs more than the whole gateway.

It handles only unambiguous requests with a bearer token that may belong to an identity. Django handles all other
requests, so that each request has one interpretation.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

import orjson

from common import strict_json
from common.api import errors
from common.asgi import client_address
from common.asgi.bodies import AsgiApplication, AsgiMessage, BodyTimeout, ClientDisconnected, Receive, read_body
from common.asgi.client_disconnect import run_until_disconnect
from common.asgi.headers import HeaderPairs
from common.asgi.hosts import is_allowed_host
from common.context import RequestContext, bind_context
from common.errors import InvalidInput
from common.ids import parse_uuid, uuid7
from common.strict_json import StrictJsonError
from mcp.gateway import pipeline
from mcp.gateway.types import CallRequest, split_tool_name
from mcp.server import request_headers, rest_renderer
from mcp.server.request_parser import MAX_BODY_BYTES
from mcp.server.rest_renderer import RestResponse
from nhi.credentials import tokens
from nhi.credentials.tokens import ParsedBearerToken

CALL_PATH = re.compile(r"/(?:api/nhi/)?mcp/tools/([^/\n]{1,400})/call")
BODY_LENGTHS = range(1, 1024 * 1024 + 1)
#: Wraps an ASGI `send` so that responses are counted.
ResponseCounter = Callable[[dict[str, Any], Any], Any]


def make_application(
    django: AsgiApplication, headers: HeaderPairs, response_counter: ResponseCounter
) -> AsgiApplication:
    """Handle and count tool calls here. Pass everything else to `django`, which counts its own responses."""

    async def routed(scope: dict[str, Any], receive: Receive, send: Any) -> None:
        call = (
            RestCallHandler.match(scope, receive, send, headers, response_counter) if scope["type"] == "http" else None
        )
        await (django(scope, receive, send) if call is None else call.run())

    return routed


class RestCallHandler:
    """Handles one tool call over REST without Django."""

    @classmethod
    def match(
        cls, scope: dict[str, Any], receive: Receive, send: Any, headers: HeaderPairs, response_counter: ResponseCounter
    ) -> "RestCallHandler | None":
        """Return a handler, or None if Django handles the request."""
        match = CALL_PATH.fullmatch(scope["path"]) if scope["method"] == "POST" else None
        if match is None:
            return None
        head = dict(scope["headers"])
        if not _is_unambiguous(scope, head):
            return None
        scheme, _, bearer = _header_text(head, b"authorization").strip().partition(" ")
        token = tokens.parse(bearer.strip()) if scheme.lower() == "bearer" else None
        if token is None or (isinstance(token, tokens.ParsedCredentialToken) and token.prefix == "usr"):
            return None
        return cls(match[1], token, head, scope, receive, response_counter(scope, send), headers)

    def __init__(
        self, name: str, token: ParsedBearerToken, head: Mapping[bytes, bytes], scope: dict[str, Any],
        receive: Receive, send: Any, headers: HeaderPairs,
    ) -> None:  # fmt: skip
        self._name, self._token = name, token
        self._receive, self._send, self._headers = receive, send, headers
        self._request_id = parse_uuid(_header_text(head, b"x-request-id")) or uuid7()
        self._source = client_address.find_source(scope, _header_text(head, b"x-forwarded-for"))

    async def run(self) -> None:
        with bind_context(RequestContext(self._request_id, self._source)):
            try:
                response = await self._call_tool()
            except ClientDisconnected:
                return
            except Exception as error:
                response = _render_failure(error)
            if response is not None:
                await self._send_response(response)

    async def _call_tool(self) -> RestResponse | None:
        try:
            body = await read_body(self._receive, max_bytes=MAX_BODY_BYTES)
        except BodyTimeout as error:
            raise InvalidInput(str(error)) from error
        call_result = await run_until_disconnect(self._receive, pipeline.call_tool(self._build_request(body)))
        return None if call_result is None else rest_renderer.render_result(call_result)

    def _build_request(self, body: bytes) -> CallRequest:
        """Build the call. An invalid body is reported only after the decision whether the caller may see the tool."""
        try:
            fields = rest_renderer.parse_call_body(_parse_json(body))
        except InvalidInput as error:
            fields = rest_renderer.describe_invalid_body(error)
        server, tool = split_tool_name(self._name)
        return CallRequest(self._token, server, tool, request_id=self._request_id, source=self._source, **fields)

    async def _send_response(self, response: RestResponse) -> None:
        body = orjson.dumps(response.body)
        response_headers = [
            (name.lower().encode(), value.encode("latin-1")) for name, value in response.headers.items()
        ]
        headers = [
            *self._headers,
            (b"content-type", b"application/json"),
            (b"content-length", b"%d" % len(body)),
            (b"x-request-id", str(self._request_id).encode()),
            *response_headers,
        ]
        start: AsgiMessage = {"type": "http.response.start", "status": response.status, "headers": headers}
        await self._send(start)
        await self._send({"type": "http.response.body", "body": body})


def _is_unambiguous(scope: Mapping[str, Any], headers: Mapping[bytes, bytes]) -> bool:
    """Whether Django would interpret the request in the same way: no repeated headers, no cookie, a known length."""
    return (
        len(headers) == len(scope["headers"])
        and not scope.get("query_string")
        and not headers.keys() & {b"cookie", b"transfer-encoding"}
        and _content_length(headers) in BODY_LENGTHS
        and request_headers.is_json_content_type(_header_text(headers, b"content-type"))
        and is_allowed_host(_header_text(headers, b"host"))
    )


def _content_length(headers: Mapping[bytes, bytes]) -> int:
    value = headers.get(b"content-length", b"")
    return int(value) if value.isdigit() and len(value) < 10 else 0


def _header_text(headers: Mapping[bytes, bytes], name: bytes) -> str:
    return headers.get(name, b"").decode("latin-1")


def _parse_json(body: bytes) -> Any:
    try:
        return strict_json.loads(body)
    except StrictJsonError as error:
        raise InvalidInput(str(error)) from error


def _render_failure(error: Exception) -> RestResponse:
    failure, answer, reason = errors.understood(error)
    headers = {"Retry-After": str(retry_after)} if (retry_after := failure.details.get("retry_after")) else {}
    return RestResponse(answer.status, errors.body(failure, answer, reason), headers)
