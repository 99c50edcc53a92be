"""An inbox that is listed or taken from when there is something in it: no thread waits, and one look serves all.

Django judges the request and answers; where nothing was in the inbox, who may wait does so in the loop, and Django is
asked once more.
"""

import asyncio
import json
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from rest_framework.request import Request

from a2a.operations import rooms
from common.asgi.bodies import AsgiApplication, AsgiMessage, Receive, capture_response
from common.asgi.client_disconnect import ProcessStopping, run_until_disconnect

LISTED, TAKEN = "/api/nhi/a2a/inbox", "/api/nhi/a2a/inbox/claim"
KEY = "gatehouse.inbox"
LONGEST = 60


@dataclass
class Offer:
    """What the view may take up: that the answer waits until there is something to tell."""

    agent_id: UUID | None = None
    seconds: int = 0

    def take(self, agent_id: UUID | None, seconds: int) -> None:
        self.agent_id, self.seconds = agent_id, min(seconds, LONGEST)


def offer_of(request: Request) -> Offer | None:
    """None where nobody can wait: then the answer is what there is."""
    found = getattr(request, "scope", {}).get(KEY)
    return found if isinstance(found, Offer) else None


class Waiting:
    """Django, and who waits for an inbox beside it."""

    def __init__(self, django: AsgiApplication) -> None:
        self._django = django

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Any) -> None:
        if not _may_wait(scope):
            await self._django(scope, receive, send)
            return
        # All of it comes at once, from who keeps bodies within bounds.
        body = (await receive()).get("body", b"")
        try:
            messages = await run_until_disconnect(receive, self._answer(scope, body)) or []
        except ProcessStopping:
            # This process ends: who waits is told what there is, and asks another.
            messages = await capture_response(self._django, scope, body)
        for message in messages:
            await send(message)

    async def _answer(self, scope: dict[str, Any], body: bytes) -> list[AsgiMessage]:
        offer = Offer()
        messages = await capture_response(self._django, {**scope, KEY: offer}, body)
        ends = time.monotonic() + offer.seconds
        while offer.agent_id is not None and _is_empty(messages) and time.monotonic() < ends:
            with suppress(TimeoutError):
                async with asyncio.timeout(ends - time.monotonic()):
                    await rooms.offered(offer.agent_id, takes=scope["path"] == TAKEN)
            messages = await capture_response(self._django, {**scope, KEY: Offer()}, body)
        return messages


def _may_wait(scope: dict[str, Any]) -> bool:
    if scope["type"] != "http":
        return False
    asked = (scope["method"], scope["path"])
    return asked == ("POST", TAKEN) or (asked == ("GET", LISTED) and b"wait=" in scope.get("query_string", b""))


def _is_empty(messages: list[AsgiMessage]) -> bool:
    if messages[0]["status"] != 200:
        return False
    told = json.loads(b"".join(message.get("body", b"") for message in messages[1:]))
    return not told.get("total", len(told["tasks"]))
