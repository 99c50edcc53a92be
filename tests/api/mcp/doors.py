"""The same request through both of the doors that take it: past Django, and through it."""

import asyncio
import json
from dataclasses import dataclass, field
from typing import Any

from asgiref.sync import async_to_sync
from django.core.asgi import get_asgi_application

from common import egress
from common.asgi.bodies import AsgiApplication, limit_body
from common.asgi.headers import security_headers
from mcp.client import transports
from mcp.server import rest_handler

Pairs = list[tuple[bytes, bytes]]
MEBIBYTE = 1024 * 1024
BODY = b'{"parameters": {"x": 1}}'
JSON = (b"content-type", b"application/json")
HOST = (b"host", b"127.0.0.1:8000")


@dataclass
class Asked:
    """A call, to be made odd in one place."""

    bearer: str
    path: str = "/api/nhi/mcp/tools/peer__echo/call"
    host: Pairs = field(default_factory=lambda: [HOST])
    kind: Pairs = field(default_factory=lambda: [JSON])
    more: Pairs = field(default_factory=list)
    body: bytes = BODY
    query: bytes = b""
    chunked: bool = False

    @property
    def scope(self) -> dict[str, Any]:
        length = (b"transfer-encoding", b"chunked") if self.chunked else (b"content-length", b"%d" % len(self.body))
        bearer = (b"authorization", f"Bearer {self.bearer}".encode())
        return {
            "type": "http", "method": "POST", "path": self.path, "raw_path": self.path.encode(), "root_path": "",
            "query_string": self.query, "headers": [*self.host, bearer, *self.kind, length, *self.more],
            "client": ("192.0.2.7", 5), "server": ("127.0.0.1", 8000), "scheme": "http", "http_version": "1.1",
        }  # fmt: skip


@dataclass(frozen=True)
class Said:
    status: int
    body: Any

    @property
    def what(self) -> tuple[Any, ...]:
        """All that a program decides by."""
        details = self.body.get("details", {})
        fields = [one["field"] for one in details.get("fields", ())]
        return self.status, self.body.get("error_code"), details.get("reason"), fields


@dataclass
class Doors:
    """The way past Django, with whether it was taken, and the way through it."""

    django: AsgiApplication = field(default_factory=lambda: limit_body(get_asgi_application(), limit=MEBIBYTE))
    handed_over: bool = False

    def past(self, asked: Asked) -> Said:
        self.handed_over = False
        return _send(
            rest_handler.make_application(self._handed, security_headers(), lambda _scope, send: send),
            asked,
        )

    def through(self, asked: Asked) -> Said:
        return _send(self.django, asked)

    async def _handed(self, scope: Any, receive: Any, send: Any) -> None:
        self.handed_over = True
        await self.django(scope, receive, send)


@async_to_sync
async def _send(application: AsgiApplication, asked: Asked) -> Said:
    sent: list[dict[str, Any]] = []
    left = [{"type": "http.request", "body": asked.body, "more_body": False}]

    async def receive() -> dict[str, Any]:
        if not left:
            await asyncio.Event().wait()
        return left.pop()

    async def send(told: dict[str, Any]) -> None:
        sent.append(told)

    try:
        async with asyncio.timeout(20):
            await application(asked.scope, receive, send)
    finally:
        await transports.close_all()
        await egress.close_session()
    body = b"".join(told.get("body", b"") for told in sent[1:])
    return Said(sent[0]["status"], json.loads(body) if body else {})
