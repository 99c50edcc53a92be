"""Handles tool calls over REST before Django, whose request handler costs more than the whole gateway.

It handles only unambiguous requests with a bearer token that may belong to an identity. Django handles all other
requests, so that each request has one interpretation.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import orjson

from common import strict_json
from common.api import errors
from common.asgi import clients
from common.asgi.bodies import AsgiApplication, AsgiMessage, Receive
from common.asgi.headers import HeaderPairs
from common.asgi.hosts import is_allowed_host
from common.context import RequestContext, bind_context
from common.errors import InvalidInput
from common.ids import parse_uuid, uuid7
from common.strict_json import StrictJsonError
from mcp.gateway import gateway
from mcp.server import bodies, heads, rest_renderer
from mcp.server.errors import ErrorResponse
from mcp.server.rest_renderer import RestResponse
from nhi.credentials import tokens

CALL_PATH = re.compile(r"/(?:api/nhi/)?mcp/tools/([^/\n]{1,400})/call")
BODY_LENGTHS = range(1, 1024 * 1024 + 1)
#: Wraps an ASGI `send` so that responses are counted.
ResponseCounter = Callable[[dict[str, Any], Any], Any]


def make_application(django: AsgiApplication, headers: HeaderPairs, counting: ResponseCounter) -> AsgiApplication:
    """Handle and count tool calls here. Pass everything else to `django`, which counts its own responses."""

    async def routed(scope: dict[str, Any], receive: Receive, send: Any) -> None:
        call = RestCallHandler.match(scope, receive, send, headers, counting) if scope["type"] == "http" else None
        await (django(scope, receive, send) if call is None else call.run())

    return routed


class RestCallHandler:
    @classmethod
    def match(
        cls, scope: dict[str, Any], receive: Receive, send: Any, headers: HeaderPairs, counting: ResponseCounter
    ) -> "RestCallHandler | None":
        """Return a handler, or None if Django handles the request."""
        match = CALL_PATH.fullmatch(scope["path"]) if scope["method"] == "POST" else None
        if match is None:
            return None
        head = dict(scope["headers"])
        if not _is_unambiguous(scope, head):
            return None
        scheme, _, bearer = _header_text(head, b"authorization").strip().partition(" ")
        shown = tokens.parse(bearer.strip()) if scheme.lower() == "bearer" else None
        if shown is None or (isinstance(shown, tokens.ParsedCredentialToken) and shown.prefix == "usr"):
            return None
        return cls(match[1], bearer.strip(), head, scope, receive, counting(scope, send), headers)

    def __init__(
        self, name: str, bearer: str, head: Mapping[bytes, bytes], scope: dict[str, Any], receive: Receive, send: Any,
        headers: HeaderPairs,
    ) -> None:  # fmt: skip
        self._name, self._bearer = name, bearer
        self._receive, self._send, self._headers = receive, send, headers
        self._request_id = parse_uuid(_header_text(head, b"x-request-id")) or uuid7()
        self._source = clients.client_source(scope, _header_text(head, b"x-forwarded-for"))

    async def run(self) -> None:
        with bind_context(RequestContext(self._request_id, self._source)):
            try:
                reply = await self._call_tool()
            except bodies.ClientDisconnected:
                return
            except Exception as error:
                reply = _render_failure(error)
            if reply is not None:
                await self._send_response(reply)

    async def _call_tool(self) -> RestResponse | None:
        body = await bodies.read_body(self._receive)
        if isinstance(body, ErrorResponse):
            raise InvalidInput("The body did not arrive in time.")
        outcome = await clients.run_until_disconnect(self._receive, gateway.call_tool(self._build_call(body)))
        return None if outcome is None else rest_renderer.render_result(outcome)

    def _build_call(self, body: bytes) -> gateway.IncomingCall:
        """Build the call. An invalid body is reported only after the decision whether the caller may see the tool."""
        ask = gateway.IncomingCall(self._bearer, "", self._name, {}, self._request_id, self._source)
        try:
            parameters, around = rest_renderer.parse_call_body(_parse_json(body))
        except InvalidInput as problem:
            fields = tuple((one.field, one.message) for one in problem.fields)
            return replace(ask, problem=problem.message, problem_fields=fields)
        return replace(ask, arguments=parameters, context=around)

    async def _send_response(self, reply: RestResponse) -> None:
        body = orjson.dumps(reply.body)
        own = [(name.lower().encode(), value.encode("latin-1")) for name, value in reply.headers.items()]
        headers = [
            *self._headers,
            (b"content-type", b"application/json"),
            (b"content-length", b"%d" % len(body)),
            (b"x-request-id", str(self._request_id).encode()),
            *own,
        ]
        start: AsgiMessage = {"type": "http.response.start", "status": reply.status, "headers": headers}
        await self._send(start)
        await self._send({"type": "http.response.body", "body": body})


def _is_unambiguous(scope: Mapping[str, Any], head: Mapping[bytes, bytes]) -> bool:
    """Whether Django would interpret the request in the same way: no repeated headers, no cookie, a known length."""
    return (
        len(head) == len(scope["headers"])
        and not scope.get("query_string")
        and not head.keys() & {b"cookie", b"transfer-encoding"}
        and _content_length(head) in BODY_LENGTHS
        and heads.is_json_content_type(_header_text(head, b"content-type"))
        and is_allowed_host(_header_text(head, b"host"))
    )


def _content_length(head: Mapping[bytes, bytes]) -> int:
    said = head.get(b"content-length", b"")
    return int(said) if said.isdigit() and len(said) < 10 else 0


def _header_text(head: Mapping[bytes, bytes], name: bytes) -> str:
    return head.get(name, b"").decode("latin-1")


def _parse_json(body: bytes) -> Any:
    try:
        return strict_json.loads(body)
    except StrictJsonError as error:
        raise InvalidInput(str(error)) from error


def _render_failure(error: Exception) -> RestResponse:
    known, answer, reason = errors.understood(error)
    headers = {"Retry-After": str(wait)} if (wait := known.details.get("retry_after")) else {}
    return RestResponse(answer.status, errors.body(known, answer, reason), headers)
