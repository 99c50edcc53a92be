"""The gateway as an MCP server: a plain ASGI application, beside Django, for `/mcp` and `/mcp/<server>`.

`/mcp` names every tool `<server>__<tool>`; `/mcp/<server>` has the tools of one server under their own names.
"""

import asyncio
import time
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings

from common import egress
from common.asgi.bodies import AsgiApplication, Receive
from common.asgi.hosts import is_allowed_host
from common.threads import background_loop
from mcp.client import transports
from mcp.gateway.batch.worker import desk
from mcp.protocol.endpoints import server_of
from mcp.server.admission import House
from mcp.server.mcp_handler import Door, Exchange, Gateway
from nhi.authorization import oauth

#: Seconds for the rows of calls that end with the process; one that is not written by then is found as lost.
LAST_ROWS = 1.5


def make_application(gateway: Gateway) -> AsgiApplication:
    """The application over a gateway; it takes only scopes whose path is one of its endpoints."""
    door = Door(gateway, house(), {"name": "gatehouse", "title": "Gatehouse", "version": settings.VERSION}, headers())

    async def application(scope: dict[str, Any], receive: Receive, send: Any) -> None:
        await Exchange(door, server_of(scope["path"]) or "", scope, receive, send).run()

    return application


async def close() -> None:
    """The process ends: calls that were cancelled for it are recorded first, then what they kept open is let go of."""
    await _recorded()
    await asyncio.to_thread(desk.stop)
    await _let_go()
    await asyncio.to_thread(background_loop.stop, _let_go)


async def _recorded() -> None:
    """Whoever serves us has cancelled what did not end in time, and does not wait for what follows from that."""
    deadline = time.monotonic() + LAST_ROWS
    while desk.flights and time.monotonic() < deadline:
        await asyncio.sleep(0.01)


async def _let_go() -> None:
    await transports.close_all()
    await egress.close_session()


def house() -> House:
    parts = urlsplit(settings.PUBLIC_URL.lower())
    port = "" if parts.port in {None, {"http": 80, "https": 443}[parts.scheme]} else f":{parts.port}"
    name = f"[{parts.hostname}]" if ":" in str(parts.hostname) else parts.hostname
    return House(f"{parts.scheme}://{name}{port}", is_allowed_host, f"{settings.PUBLIC_URL}{oauth.MCP_METADATA_PATH}")


def headers() -> tuple[tuple[bytes, bytes], ...]:
    """What Django's middleware would say of an answer that is no page."""
    always = (
        (b"cache-control", b"no-store, private"),
        (b"x-content-type-options", b"nosniff"),
        (b"referrer-policy", settings.SECURE_REFERRER_POLICY.encode()),
    )
    if not settings.SECURE_HSTS_SECONDS:
        return always
    words = ["includeSubDomains"] if settings.SECURE_HSTS_INCLUDE_SUBDOMAINS else []
    words += ["preload"] if settings.SECURE_HSTS_PRELOAD else []
    value = "; ".join([f"max-age={settings.SECURE_HSTS_SECONDS}", *words])
    return (*always, (b"strict-transport-security", value.encode()))
