"""Answers that take as long as a run does: waiting for its end, and its output as it is written.

Django judges such a request like any other, in a thread of its own, and gives the thread and its connection back. What
then takes long is done here, in the loop, with short reads through one connection for all who wait.
"""

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import UUID

from rest_framework.request import Request

from common.asgi.bodies import AsgiApplication, AsgiMessage, Receive, capture_response
from common.asgi.client_disconnect import ProcessStopping, run_until_disconnect
from common.errors import RateLimited
from supervisor.api import events
from supervisor.api.events import Place
from supervisor.choices import ExecutionState
from supervisor.models import Execution
from supervisor.runner.desk import AWAY, Desk

PATH = re.compile(r"/api/nhi/supervisor/executions/[0-9A-Fa-f-]{36}/(?:wait|output)")
KEY = "gatehouse.following"
LOOK_EVERY = 0.25
#: A reader hears something at least so often, and whether it still may read is judged anew as often.
ALIVE_EVERY = 15.0
#: Of one caller at a time, in this process: each of them is looked for four times a second.
MOST_STREAMS = 32
#: What says that a reader may no longer read. Of anything else, like a database that is away, the next look tells more.
FORBIDS = frozenset({401, 403, 404})


class TooManyStreams(RateLimited):
    code = "too_many_streams"

    def __init__(self) -> None:
        said = f"You follow {MOST_STREAMS} runs at once, and no more may be. End one, or wait for it."
        super().__init__(said, retry_after=round(ALIVE_EVERY))


@dataclass(frozen=True)
class Wait:
    execution_id: UUID
    seconds: float


@dataclass(frozen=True)
class Output:
    execution_id: UUID
    after: int
    caller_id: UUID | None


@dataclass
class Offer:
    """What a view may take up while Django answers: that the answer is gone on with here."""

    #: It was asked before; the answer now is what there is.
    again: bool = False
    #: The caller follows as many as may be: a stream is refused.
    crowded: bool = False
    taken: Wait | Output | None = None


@dataclass
class Reply:
    offer: Offer
    messages: list[AsgiMessage]

    @property
    def forbids(self) -> bool:
        return bool(self.messages) and self.messages[0]["status"] in FORBIDS


def offer_of(request: Request) -> Offer | None:
    """None where nobody can go on with an answer: then it is what there is by now."""
    found = getattr(request, "scope", {}).get(KEY)
    return found if isinstance(found, Offer) else None


class Followed:
    """Django, and what takes long beside it."""

    def __init__(self, django: AsgiApplication) -> None:
        self._django = django
        self._desk = Desk("followers")
        self._streams: Counter[UUID | None] = Counter()

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Any) -> None:
        long = scope["type"] == "http" and scope["method"] == "GET" and PATH.fullmatch(scope["path"])
        if not long:
            await self._django(scope, receive, send)
            return
        begun = False

        async def noted(message: AsgiMessage) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            await run_until_disconnect(receive, self._answer(scope, noted))
        except ProcessStopping:
            # This process ends and what lasts with it. A stream is gone on with elsewhere; a wait is over early.
            if not begun:
                await _send(await self._ask(scope, Offer(again=True)), send)

    def close(self) -> None:
        self._desk.close()

    async def _answer(self, scope: dict[str, Any], send: Any) -> None:
        reply = await self._ask(scope, Offer())
        if isinstance(reply.offer.taken, Wait):
            await self._until_over(reply.offer.taken)
            reply = await self._ask(scope, Offer(again=True))
        if isinstance(wanted := reply.offer.taken, Output):
            if self._streams[wanted.caller_id] < MOST_STREAMS:
                await self._stream(scope, send, reply.messages[0], wanted)
                return
            reply = await self._ask(scope, Offer(crowded=True))
        await _send(reply, send)

    async def _ask(self, scope: dict[str, Any], offer: Offer) -> Reply:
        return Reply(offer, await capture_response(self._django, {**scope, KEY: offer}))

    async def _until_over(self, wait: Wait) -> None:
        over = Execution.objects.done().filter(pk=wait.execution_id, state=ExecutionState.IDLE)
        with suppress(TimeoutError):
            async with asyncio.timeout(wait.seconds):
                while not await self._is_there(over.all()):
                    await asyncio.sleep(LOOK_EVERY)

    async def _is_there(self, rows: Any) -> bool:
        with suppress(*AWAY):
            return bool(await self._desk.do(rows.exists))
        return False

    async def _stream(self, scope: dict[str, Any], send: Any, start: AsgiMessage, wanted: Output) -> None:
        headers = [(name, value) for name, value in start["headers"] if name.lower() != b"content-length"]
        self._streams[wanted.caller_id] += 1
        try:
            await send({**start, "headers": headers})
            async for said in self._events(scope, wanted):
                await send({"type": "http.response.body", "body": said.encode(), "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            # Not by one less: who follows nothing any more is forgotten.
            self._streams -= Counter([wanted.caller_id])

    async def _events(self, scope: dict[str, Any], wanted: Output) -> AsyncIterator[str]:
        now = asyncio.get_running_loop().time
        place, due = Place(wanted.after), now() + ALIVE_EVERY
        while True:
            said, news = "", None
            with suppress(*AWAY):
                news = await self._desk.do(partial(events.read, wanted.execution_id, place.after))
                said, place = events.told(news, place)
            if now() >= due:
                if (await self._ask(scope, Offer(again=True))).forbids:
                    return
                said, due = said or events.ALIVE, now() + ALIVE_EVERY
            if said:
                yield said
            if news is not None and news.are_last:
                return
            if news is None or not news.pieces:
                await asyncio.sleep(LOOK_EVERY)


async def _send(reply: Reply, send: Any) -> None:
    for message in reply.messages:
        await send(message)
