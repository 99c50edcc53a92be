"""The application in this process: a gateway that does as it is told, and a client of ASGI's own kind."""

import asyncio
import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from common import context
from mcp.gateway.tool_list import ToolListing
from mcp.gateway.types import CallLease, CallRefusal, CallRequest, CallResult
from mcp.server import application
from nhi.authorization.authentication import Unauthenticated
from nhi.credentials import tokens
from tests.front.asking import Headers, body, headers, message

CALL = UUID("018f0000-0000-7000-8000-000000000000")
CALLER = UUID("018f0000-0000-7000-8000-00000000000a")
TOKEN = tokens.make_credential_token("agt").token
WAIT = 5.0


LEASE = CallLease(
    CALL, CALL, "create", revision=1, era="modern", timeout=10, definition_id=CALL, decided_at=datetime.now(UTC), row={}
)


def made(status: str, *rest: str, **more: Any) -> CallResult:
    """What became of a call that was let through."""
    return CallResult(status, *rest, lease=LEASE, **more)


def refused(status: str, reason: str, message: str, *, tool_is_visible: bool = True, **more: Any) -> CallResult:
    refusal = CallRefusal(CALL, reason, message, tool_is_visible=tool_is_visible, **more)
    return CallResult(status, reason, message, refusal=refusal)


DONE = made("success", result={"content": [{"type": "text", "text": "done"}]})
UNKNOWN = CallResult("unauthenticated", "credential_revoked", "It was revoked.")


class Gateway:
    """Answers with what it was given, or does what it was given to do."""

    def __init__(self, outcome: Any = DONE, listing: Any = None) -> None:
        self.outcome = outcome
        self.listing = ToolListing(CALLER, []) if listing is None else listing
        self.asked: list[CallRequest] = []
        self.contexts: list[context.RequestContext] = []
        self.begun = asyncio.Event()
        self.cancelled = False

    async def call_tool(self, ask: CallRequest) -> CallResult:
        self.asked.append(ask)
        self.contexts.append(context.current())
        self.begun.set()
        try:
            return await self._said(ask)
        except asyncio.CancelledError:
            self.cancelled = True
            raise

    async def _said(self, ask: CallRequest) -> CallResult:
        if isinstance(self.outcome, Exception):
            raise self.outcome
        if callable(self.outcome):
            found = await self.outcome(ask)
            assert isinstance(found, CallResult)
            return found
        assert isinstance(self.outcome, CallResult)
        return self.outcome

    async def list_tools(self, bearer: str, *, server: str = "", source: str = "") -> ToolListing | Unauthenticated:
        self.contexts.append(context.current())
        if isinstance(self.listing, Exception) and not isinstance(self.listing, Unauthenticated):
            raise self.listing
        assert isinstance(self.listing, ToolListing | Unauthenticated)
        return self.listing


@dataclass
class Client:
    """One request; `parts` is how its body comes, and after it nothing comes until `leave`."""

    gateway: Gateway
    path: str = "/mcp"
    method: str = "POST"
    address: str = "127.0.0.1"
    sent: list[dict[str, Any]] = field(default_factory=list)
    said: asyncio.Event = field(default_factory=asyncio.Event)
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    #: Clear it, and this client takes nothing more.
    takes: asyncio.Event = field(default_factory=asyncio.Event)
    received: int = 0

    def __post_init__(self) -> None:
        self.takes.set()

    async def post(self, of: Any = None, *, parts: list[bytes] | None = None, **changed: str | None) -> "Client":
        of = message() if of is None else of
        given = headers(of, **{"authorization": f"Bearer {TOKEN}", **changed})
        await self.send(given, [body(of)] if parts is None else parts)
        return self

    async def send(self, given: Headers, parts: list[bytes]) -> None:
        left = list(parts)

        async def receive() -> dict[str, Any]:
            self.received += 1
            if left and not self.gone.is_set():
                return {"type": "http.request", "body": left.pop(0), "more_body": bool(left)}
            await self.gone.wait()
            return {"type": "http.disconnect"}

        async def send(told: dict[str, Any]) -> None:
            await self.takes.wait()
            self.sent.append(told)
            self.said.set()

        scope = {
            "type": "http", "method": self.method, "path": self.path, "headers": given, "client": (self.address, 5)
        }  # fmt: skip
        await application.make_application(self.gateway)(scope, receive, send)

    @property
    def status(self) -> int:
        assert [told["type"] for told in self.sent].count("http.response.start") == 1
        return int(self.sent[0]["status"])

    def header(self, name: str) -> str | None:
        return dict(self.sent[0]["headers"]).get(name.encode(), b"").decode() or None

    @property
    def body(self) -> bytes:
        assert not self.sent[-1]["more_body"], "the answer is whole"
        return b"".join(told["body"] for told in self.sent[1:])

    @property
    def answer(self) -> Any:
        return json.loads(self.body)

    @property
    def events(self) -> list[Any]:
        """Of a stream: each event's message, and None for a comment."""
        assert self.header("content-type") == "text/event-stream"
        blocks = self.body.decode().split("\n\n")
        assert blocks.pop() == ""
        return [
            None if block.startswith(":") else json.loads(block.removeprefix("event: message\ndata: "))
            for block in blocks
        ]


def ask(gateway: Gateway, of: Any = None, /, *, path: str = "/mcp", **changed: str | None) -> Client:
    """One request, from begin to end."""

    async def once() -> Client:
        async with asyncio.timeout(WAIT):
            return await Client(gateway, path).post(of, **changed)

    return asyncio.run(once())
