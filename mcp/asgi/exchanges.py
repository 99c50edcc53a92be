"""One request and its answer."""

import asyncio
import logging
import time
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from uuid import UUID

from django.db import InterfaceError, OperationalError

from common import crypto
from common.asgi import Receive
from common.context import Context, bound
from common.errors import GatehouseError, Limited
from common.ids import parse_uuid, uuid7
from common.middleware import client_address
from mcp.asgi import bodies
from mcp.asgi.replies import QUIET_SECONDS, Reply
from mcp.front import admission, heads, modern, refusals, results
from mcp.front.admission import House
from mcp.front.cursors import Cursors
from mcp.front.modern import Notification, Request
from mcp.front.progress import Progress
from mcp.front.refusals import Pairs, Refusal
from nhi import tokens
from nhi.authentication import Unauthenticated

log = logging.getLogger(__name__)
sign = partial(crypto.sign, "mcp-cursor")
#: What a gateway raises when it cannot decide, by its code; nothing was sent to any server then.
STATUS = {"record_unavailable": 503, "database_unavailable": 503, "queue_full": 503, "limited": 429}


@dataclass(frozen=True)
class Door:
    """What all exchanges share."""

    gateway: Any
    house: House
    #: Who answers, as results say it.
    info: dict[str, str]
    #: On every answer.
    headers: Pairs


class Exchange:
    def __init__(self, door: Door, server: str, scope: dict[str, Any], receive: Receive, send: Any) -> None:
        self._door, self._server, self._receive = door, server, receive
        self._method: str = scope["method"]
        self._head = heads.read(scope["headers"])
        self._request_id = parse_uuid(self._head.get("x-request-id")) or uuid7()
        self._source = _source(scope, self._head)
        self._reply = Reply(send, (*door.headers, (b"x-request-id", str(self._request_id).encode())))
        self._bearer = ""
        self._gone = False

    async def run(self) -> None:
        with bound(Context(self._request_id, self._source)):
            try:
                await self._run()
            except bodies.Gone:
                log.debug("a client went away before its request was whole")

    async def _run(self) -> None:
        refused = self._refused()
        body = refused or await bodies.read(self._receive)
        asked = body if isinstance(body, Refusal) else modern.read(self._head, body)
        if isinstance(asked, Refusal):
            await self._reply.refuse(asked)
        elif isinstance(asked, Notification):
            await self._reply.whole(202, b"")
        elif asked.method == "tools/call":
            await self._call(asked)
        else:
            await self._look(asked)

    def _refused(self) -> Refusal | None:
        """All that is known before the body is read. What is no token of ours is refused without a query."""
        house = self._door.house
        refused = admission.refused(self._method, self._head, house)
        if refused is not None:
            return refused
        shown = admission.bearer(self._head, house)
        if isinstance(shown, Refusal):
            return shown
        if tokens.parse(shown) is None:
            said = "This is not a Gatehouse token, or a part of it is missing."
            return admission.unauthenticated(house, "malformed", said)
        self._bearer = shown
        return admission.unfit(self._head)

    async def _look(self, asked: Request) -> None:
        """Discovery and lists: both only for those who may come in."""
        try:
            found = await self._door.gateway.list_tools(self._bearer, server=self._server, source=self._source)
            answer = self._unauthenticated(found) if isinstance(found, Unauthenticated) else self._listed(asked, found)
        except Exception as error:
            answer = _failure(error)
        await self._answer(asked, answer)

    def _listed(self, asked: Request, listing: Any) -> dict[str, Any] | Refusal:
        if asked.method == "server/discover":
            return results.discovered(self._door.info)
        now, cursors = time.time(), Cursors(sign, str(listing.identity_id), self._server)
        after = "" if asked.cursor is None else cursors.read(asked.cursor, now=now)
        if after is None:
            said = "This cursor is not one that a list gave you here, or it is too old. Begin again without one."
            return refusals.protocol(refusals.INVALID_PARAMS, said)
        return results.tools_page(listing.tools, cursors, after=after, now=now, info=self._door.info)

    async def _call(self, asked: Request) -> None:
        try:
            outcome = await self._outcome(asked)
        except Exception as error:
            await self._answer(asked, _failure(error))
            return
        if outcome is not None:
            await self._answer(asked, self._told(outcome), _numbers(outcome))

    async def _outcome(self, asked: Request) -> Any:
        """What became of the call; None when the client went away, which cancelled it."""
        task = asyncio.current_task()
        assert task is not None  # a server runs every application in one
        loop = asyncio.get_running_loop()
        quiet = loop.call_later(QUIET_SECONDS, self._reply.keep_alive)
        watch = loop.create_task(self._watch(task))
        try:
            return await self._door.gateway.call_tool(self._ask(asked))
        except asyncio.CancelledError:
            self._reply.abandon()
            if not self._gone:
                raise
            task.uncancel()
            return None
        finally:
            quiet.cancel()
            watch.cancel()

    async def _watch(self, task: asyncio.Task[Any]) -> None:
        """End the call when the client is gone: closing the answer is how a call is cancelled in this protocol."""
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._gone = True
        task.cancel()

    def _ask(self, asked: Request) -> Any:
        gateway, context = self._door.gateway, asked.context
        return gateway.Ask(
            bearer=self._bearer,
            server=self._server,
            tool=asked.name,
            arguments=asked.arguments,
            door="mcp",
            request_id=self._request_id,
            source=self._source,
            context=gateway.CallContext(
                thread_id=context.get("conversation_id", ""),
                session_id=context.get("session_id", ""),
                task_id=context.get("task_id", ""),
                user_instruction=context.get("user_instruction", ""),
            ),
            on_progress=None if asked.progress_token is None else self._progressing(Progress(asked.progress_token)),
            protocol_version=asked.version,
        )

    def _progressing(self, progress: Progress) -> Any:
        async def on_progress(said: dict[str, Any]) -> None:
            notification = progress.next(said, now=time.monotonic())
            if notification is not None:
                self._reply.event(results.encode(notification))

        return on_progress

    def _told(self, outcome: Any) -> dict[str, Any] | Refusal:
        if outcome.status == "unauthenticated":
            return self._unauthenticated(outcome)
        if not outcome.held:
            # The same words for a tool that is not there and for one that this caller never held.
            return refusals.protocol(refusals.INVALID_PARAMS, "There is no such tool here that you may call.")
        call_id = "" if outcome.call_id is None else str(outcome.call_id)
        if outcome.result is not None and outcome.status in {"success", "error"}:
            return results.tool_result(outcome.result, call_id=call_id, info=self._door.info)
        return results.refused_call(
            outcome.message,
            mark=results.FAILED if outcome.status == "error" else results.DENIED,
            info=self._door.info,
            call_id=call_id,
            reason=outcome.reason,
            retry_after=outcome.retry_after,
            expires_at=None if outcome.expires_at is None else outcome.expires_at.isoformat(),
        )

    def _unauthenticated(self, why: Any) -> Refusal:
        return admission.unauthenticated(self._door.house, why.reason, why.message)

    async def _answer(self, asked: Request, answer: dict[str, Any] | Refusal, headers: Pairs = ()) -> None:
        if isinstance(answer, Refusal):
            refusal = answer.to(asked.id)
            await self._reply.whole(refusal.status, results.encode(refusal.envelope), (*refusal.headers, *headers))
            return
        await self._reply.whole(200, results.encode(results.envelope(asked.id, answer)), headers)


def _numbers(outcome: Any) -> Pairs:
    """What REST says in headers too; a stream that has begun says the call's id in its result alone."""
    found: list[tuple[bytes, UUID | int | None]] = [
        (b"x-call-id", outcome.call_id),
        (b"retry-after", outcome.retry_after),
        (b"ratelimit-remaining", outcome.remaining),
        (b"ratelimit-reset", outcome.reset),
    ]
    return tuple((name, str(value).encode()) for name, value in found if value is not None)


def _failure(error: Exception) -> Refusal:
    """Nothing came of it, for a reason of ours."""
    if isinstance(error, OperationalError | InterfaceError):
        log.warning("the database is away", exc_info=error)
        return _own(503, "database_unavailable", "The database cannot be reached, so nothing was done.")
    if isinstance(error, GatehouseError) and error.code in STATUS:
        wait = error.retry_after if isinstance(error, Limited) else None
        headers = () if wait is None else ((b"retry-after", str(wait).encode()),)
        return replace(_own(STATUS[error.code], error.code, error.message), headers=headers)
    log.error("unexpected", exc_info=error)
    return _own(500, "unexpected", "Something went wrong here. Name the request id when you report it.")


def _own(status: int, reason: str, message: str) -> Refusal:
    return Refusal(status, refusals.INTERNAL_ERROR, message, {"reason": reason})


def _source(scope: dict[str, Any], head: heads.Head) -> str:
    client = scope.get("client")
    return client_address(
        {"REMOTE_ADDR": client[0] if client else "", "HTTP_X_FORWARDED_FOR": head.get("x-forwarded-for")}
    )
