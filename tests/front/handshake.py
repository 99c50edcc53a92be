"""Clients of the handshake revisions, in this process and over sockets, whose requests are whole and right."""

import asyncio
import http.client
import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from nhi.actors import SYSTEM
from nhi.credentials import credentials
from nhi.models import Identity
from tests.front.asking import Headers, body
from tests.front.door import WAIT, Client, Gateway

OLDEST, NEWEST = "2025-03-26", "2025-11-25"


def request(method: str, /, *, id: Any = 1, **params: Any) -> dict[str, Any]:  # noqa: A002 - the name that JSON-RPC gives it
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


def call(*, id: Any = 1, **more: Any) -> dict[str, Any]:  # noqa: A002 - the same
    return request("tools/call", id=id, **{"name": "todo__create", "arguments": {"title": "milk"}, **more})


def initialize(version: Any = NEWEST, **params: Any) -> dict[str, Any]:
    client = {"name": "a test", "version": "1"}
    return request("initialize", protocolVersion=version, capabilities={}, clientInfo=client, **params)


def notification(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": method, "params": params}


def token(of: Identity) -> str:
    return credentials.issue(actor=SYSTEM, holder=of).token


@dataclass
class Caller:
    """Who sends requests, and where; `session` and `version` are the headers, left out when None."""

    gateway: Gateway
    token: str
    path: str = "/mcp"
    session: str | None = None
    version: str | None = None

    def headers(self, **changed: str | None) -> Headers:
        values: dict[str, str | None] = {
            "host": "127.0.0.1:8000",
            "accept": "application/json, text/event-stream",
            "content-type": "application/json",
            "authorization": f"Bearer {self.token}",
            "mcp-session-id": self.session,
            "mcp-protocol-version": self.version,
            **{name.replace("_", "-"): value for name, value in changed.items()},
        }
        return [(name.encode(), value.encode("latin-1")) for name, value in values.items() if value is not None]

    def post(self, sent: Any, **changed: str | None) -> Client:
        return self._send("POST", self.headers(**changed), [body(sent)])

    def delete(self, **changed: str | None) -> Client:
        return self._send("DELETE", self.headers(**changed), [])

    def begin(self, version: str = NEWEST) -> Client:
        """Initialize, and keep the session for what follows."""
        found = self.post(initialize(version))
        assert found.status == 200, found.answer
        self.session, self.version = found.header("mcp-session-id"), found.answer["result"]["protocolVersion"]
        return found

    def _send(self, method: str, given: Headers, parts: list[bytes]) -> Client:
        async def once() -> Client:
            async with asyncio.timeout(WAIT):
                client = Client(self.gateway, self.path, method)
                await client.send(given, parts)
                return client

        return asyncio.run(once())


@dataclass
class Line:
    """Requests over connections of their own, as a client of the handshake sends them."""

    token: str
    session: str = ""

    def begin(self, url: str) -> None:
        with self.posted(url, initialize()) as answer:
            assert answer.status == 200, answer.read()
            self.session = str(answer.headers["mcp-session-id"])

    @contextmanager
    def posted(self, url: str, sent: Any, method: str = "POST") -> Iterator[http.client.HTTPResponse]:
        with self.connected(url, sent, method) as link:
            yield link.getresponse()

    @contextmanager
    def connected(self, url: str, sent: Any, method: str = "POST") -> Iterator[http.client.HTTPConnection]:
        """A connection over which the request was sent."""
        parts = urlsplit(url)
        with closing(http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=30)) as link:
            headers = {
                "Authorization": f"Bearer {self.token}",
                "Accept": "application/json, text/event-stream",
                "Content-Type": "application/json",
            }
            if self.session:
                headers |= {"Mcp-Session-Id": self.session, "MCP-Protocol-Version": NEWEST}
            link.request(method, parts.path, json.dumps(sent), headers)
            yield link
