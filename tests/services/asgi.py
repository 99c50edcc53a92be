"""An ASGI application asked from one loop, as a web server asks it: for long answers, and for clients who leave."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from common.asgi.bodies import AsgiApplication, AsgiMessage

Json = dict[str, Any]
LONGEST = 20.0


@dataclass(frozen=True)
class Event:
    name: str
    data: Json
    id: str = ""


@dataclass
class Answer:
    """One request that is under way, and what has come of it."""

    sent: "asyncio.Queue[AsgiMessage]" = field(default_factory=asyncio.Queue)
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    start: AsgiMessage = field(default_factory=dict)
    task: "asyncio.Task[None] | None" = None

    @property
    def status(self) -> int:
        return int(self.start["status"])

    @property
    def headers(self) -> dict[str, str]:
        return {name.decode().lower(): value.decode() for name, value in self.start["headers"]}

    async def pieces(self) -> AsyncIterator[str]:
        """All there are; the server is done with the request after the last, and has closed what it held."""
        more = True
        while more:
            message = await asyncio.wait_for(self.sent.get(), LONGEST)
            more = message.get("more_body", False)
            yield message.get("body", b"").decode()
        assert self.task is not None
        await asyncio.wait_for(self.task, LONGEST)

    async def text(self) -> str:
        return "".join([piece async for piece in self.pieces()])

    async def json(self) -> Json:
        return dict(json.loads(await self.text()))

    async def events(self) -> AsyncIterator[Event]:
        held = ""
        async for piece in self.pieces():
            *whole, held = (held + piece).split("\n\n")
            for block in whole:
                if not block.startswith(":"):
                    yield _event(block)

    async def leave(self) -> None:
        """The client goes away; the server notices."""
        self.gone.set()
        assert self.task is not None
        await asyncio.wait_for(self.task, LONGEST)


class Door:
    def __init__(self, application: AsgiApplication) -> None:
        self._application = application
        self.asked: list[Answer] = []

    async def ask(
        self, method: str, path: str, token: str = "", query: str = "", body: bytes = b"", **headers: str
    ) -> Answer:
        """Answers once the first of it has come."""
        answer, left = Answer(), [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> AsgiMessage:
            if left:
                return left.pop()
            await answer.gone.wait()
            return {"type": "http.disconnect"}

        self.asked.append(answer)
        scope = _scope(method, path, token, query, headers)
        answer.task = asyncio.create_task(self._application(scope, receive, answer.sent.put))
        answer.start = await asyncio.wait_for(answer.sent.get(), LONGEST)
        return answer


def _scope(method: str, path: str, token: str, query: str, headers: dict[str, str]) -> Json:
    bearer = {"authorization": f"Bearer {token}"} if token else {}
    pairs = {"host": "127.0.0.1:8000", **bearer, **{name.replace("_", "-"): said for name, said in headers.items()}}
    return {
        "type": "http", "method": method, "path": path, "raw_path": path.encode(), "root_path": "",
        "query_string": query.encode(), "headers": [(name.encode(), said.encode()) for name, said in pairs.items()],
        "client": ("192.0.2.7", 5), "server": ("127.0.0.1", 8000), "scheme": "http", "http_version": "1.1",
    }  # fmt: skip


def _event(block: str) -> Event:
    said = dict(line.split(": ", 1) for line in block.splitlines())
    return Event(said.get("event", "message"), json.loads(said["data"]), said.get("id", ""))
