"""One request over HTTP and its answer, whichever of the two bindings it is in."""

import logging
from contextlib import aclosing
from typing import Any

from django.conf import settings

from a2a.asgi import heads, jsonrpc, paths, rest
from a2a.asgi.calls import Call, Unread
from a2a.asgi.replies import Reply
from a2a.asgi.versions import OLD
from a2a.operations import asking, faults
from a2a.operations.asking import Asked
from a2a.operations.desk import desk
from a2a.operations.following import Item
from a2a.operations.table import OPERATIONS
from a2a.operations.visits import Shown
from a2a.wire.faults import Fault, Kind
from common.asgi import bodies, client_address
from common.asgi.bodies import Receive
from common.asgi.client_disconnect import ProcessStopping, run_until_disconnect
from common.asgi.headers import HeaderPairs
from common.asgi.hosts import is_allowed_host
from common.ids import parse_uuid, uuid7
from nhi.authorization import oauth
from nhi.authorization.authentication import missing_credential_error
from nhi.credentials import tokens

log = logging.getLogger(__name__)
LARGEST = 10 * 1024 * 1024
#: Bytes that are read and looked into in the loop, whoever sent them.
SMALL = 64 * 1024


class Exchange:
    def __init__(self, scope: dict[str, Any], receive: Receive, send: Any, headers: HeaderPairs) -> None:
        self._scope, self._receive = scope, receive
        self._head = heads.read(scope["headers"])
        self._query = paths.query(scope.get("query_string", b""))
        self._request_id = parse_uuid(self._head.get("x-request-id")) or uuid7()
        self._source = client_address.find_source(scope, self._head.get("x-forwarded-for"))
        place = paths.place_of(scope["path"])
        assert place is not None  # the router asked
        self._place = place
        self._reply = Reply(send, (*headers, (b"x-request-id", str(self._request_id).encode())))
        self._wrapping = (
            jsonrpc.wrapped() if paths.is_rpc(place) else rest.wrapped(self._head, paths.version_of(place.rest))
        )
        self._shown = Shown(self._head.values)

    async def run(self) -> None:
        try:
            self._admit()
            if self._is_large():
                await asking.admit(self._place.agent, self._shown, self._source, self._request_id)
            body = await self._body()
            call = await desk.do(lambda: self._read(body)) if len(body) > SMALL else self._read(body)
            self._wrapping = call.wrapping
            await run_until_disconnect(self._receive, self._answer(call, len(body)))
        except bodies.ClientDisconnected:
            log.debug("a client went away before its request was whole")
        except Unread as unread:
            self._wrapping = unread.wrapping
            await self._refuse(unread.fault, allow=unread.allow)
        except ProcessStopping as stopping:
            await self._refuse(Fault(Kind.UNAVAILABLE, stopping.message))
        except Exception as error:
            await self._refuse(faults.of(error))

    def _admit(self) -> None:
        """All that is known before the body is read. What is no token of ours is refused without a query."""
        if "host" in self._head.repeated or not is_allowed_host(self._head.get("host")):
            raise Fault(Kind.INVALID_REQUEST, "This host name is not one of this server's.")
        if self._head.repeated:
            raise Fault(Kind.INVALID_REQUEST, f"Send these headers once: {', '.join(sorted(self._head.repeated))}.")
        if tokens.parse(self._shown.token) is None and not self._may_be_open():
            raise missing_credential_error(self._said)

    @property
    def _said(self) -> str | None:
        """What was shown as a credential, whatever it is; None for nothing."""
        return self._shown.token or self._head.values.get("authorization")

    def _may_be_open(self) -> bool:
        """Only a development server lets anybody in who shows nothing, and then by the agent's own setting."""
        return settings.DEBUG and not self._shown.token

    def _is_large(self) -> bool:
        """Reading much, and looking into it, is for those who may ask for something here."""
        said = self._head.get("content-length") or "0"
        whole = said.isdecimal() and len(said) < 10 and not self._head.get("transfer-encoding")
        return not whole or int(said) > SMALL

    async def _body(self) -> bytes:
        try:
            body = await bodies.read_body(self._receive, max_bytes=LARGEST)
        except bodies.BodyTimeout as error:
            raise Fault(Kind.INVALID_REQUEST, str(error)) from error
        if len(body) > LARGEST:
            raise Fault(Kind.TOO_LARGE, f"More than {LARGEST} bytes were sent; that is the most.")
        return body

    def _read(self, body: bytes) -> Call:
        version = self._head.get("a2a-version") or self._query.get("A2A-Version", "")
        method, place = self._scope["method"], self._place
        if not paths.is_rpc(place):
            query = {name: value for name, value in self._query.items() if name != "A2A-Version"}
            return rest.read(method, place.rest, self._head, query, body, said_version=version)
        if method != "POST":
            fault = Fault(Kind.METHOD_NOT_FOUND, "Send JSON-RPC with POST.")
            raise Unread(fault, self._wrapping, allow=frozenset({"POST"}))
        if self._head.media not in rest.MEDIA:
            raise Fault(Kind.CONTENT_TYPE, f"Send {heads.JSON}.")
        return jsonrpc.read(body, said_version=version)

    async def _answer(self, call: Call, size: int) -> None:
        asked = self._asked(call, size)
        try:
            if OPERATIONS[call.operation].streams:
                await self._stream(call, asked)
                return
            told = call.dialect.write(call.operation, await asking.answer(asked))
            await self._reply.whole(200, call.wrapping.result(told), media=call.wrapping.media)
        except Fault as fault:
            await (self._tell(fault) if self._wants_events(call) else self._refuse(fault))

    def _wants_events(self, call: Call) -> bool:
        """Clients of 0.3 that ask for a stream and take nothing else hear of a fault in one."""
        streams = call.version == OLD and call.transport == jsonrpc.TRANSPORT and OPERATIONS[call.operation].streams
        return streams and not self._reply.has_begun and heads.takes_events_alone(self._head)

    async def _tell(self, fault: Fault) -> None:
        await self._reply.event(self._wrapping.error(fault))
        await self._reply.end()

    async def _stream(self, call: Call, asked: Asked) -> None:
        async with aclosing(asking.stream(asked, after=self._seen())) as told:
            async for item in told:
                if item is None:
                    await self._reply.keep_alive()
                else:
                    await self._tell_item(call, item)
                # Until the next one comes, nobody needs it.
                del item
        await self._reply.end()

    async def _tell_item(self, call: Call, item: Item) -> None:
        body = call.wrapping.result(call.dialect.item(call.operation, item.body))
        await self._reply.event(body, seq=item.seq)

    def _seen(self) -> int | None:
        """The last event that a client who comes back has seen."""
        said = self._head.get("last-event-id") or self._query.get("after", "")
        return int(said) if said.isdecimal() and len(said) < 10 else None

    def _asked(self, call: Call, size: int) -> Asked:
        return Asked(
            operation=call.operation,
            agent=self._place.agent,
            shown=self._shown,
            source=self._source,
            request_id=self._request_id,
            params=call.params,
            transport=call.transport,
            version=call.version,
            idempotency_key=self._head.values.get("idempotency-key"),
            size=size,
        )

    async def _refuse(self, fault: Fault, *, allow: frozenset[str] = frozenset()) -> None:
        told = self._wrapping.error(fault)
        if self._reply.has_begun:
            # The status is out. A stream that only stopped could not be told from one that is complete.
            await self._reply.event(told, name="error")
            await self._reply.end()
            return
        status = 405 if allow else self._wrapping.status(fault)
        await self._reply.whole(status, told, media=self._wrapping.media, headers=self._headers(fault, allow))

    def _headers(self, fault: Fault, allow: frozenset[str]) -> HeaderPairs:
        challenge = oauth.challenge(credential_sent=self._said is not None).encode()
        known = ((b"www-authenticate", challenge),) if fault.kind is Kind.UNAUTHENTICATED else ()
        return (*known, *_headers(fault, allow))


def _headers(fault: Fault, allow: frozenset[str]) -> HeaderPairs:
    found: list[tuple[bytes, bytes]] = []
    if fault.retry_after is not None:
        found.append((b"retry-after", b"%d" % fault.retry_after))
    if allow:
        found.append((b"allow", ", ".join(sorted(allow)).encode()))
    return tuple(found)
