"""The ASGI application of `/mcp` and `/mcp/<server>`, which runs beside Django, and its shutdown.

`/mcp` names every tool `<server>__<tool>`. `/mcp/<server>` lists the tools of one server under their own names.
"""

import asyncio
import time
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings

from common import egress
from common.asgi import client_disconnect
from common.asgi.bodies import AsgiApplication, Receive
from common.asgi.headers import security_headers
from common.asgi.hosts import is_allowed_host
from common.executors import background_loop
from mcp.client import transports
from mcp.gateway.batch.worker import batch_worker
from mcp.protocol.endpoints import find_server_name
from mcp.server.exchange import GatewayBackend, McpExchange, ServerContext
from mcp.server.mcp_handler import McpRequestHandler
from mcp.server.request_headers import EndpointSettings
from nhi.authorization import oauth

#: Seconds to wait for the log rows of calls that the shutdown cancels. A later check marks missing rows as lost.
LAST_ROWS_SECONDS = 1.5


def make_application(gateway: GatewayBackend) -> AsgiApplication:
    """Build the application. It accepts only scopes whose path is an MCP endpoint."""
    context = ServerContext(
        gateway,
        endpoint_settings(),
        {"name": "gatehouse", "title": "Gatehouse", "version": settings.VERSION},
        security_headers(),
    )

    async def application(scope: dict[str, Any], receive: Receive, send: Any) -> None:
        server = find_server_name(scope["path"]) or ""
        await McpRequestHandler(McpExchange(context, server, scope, receive, send)).run()

    return application


async def close() -> None:
    """Shut down: wait until cancelled calls are recorded, then close the connections."""
    client_disconnect.cancel_continued_calls()
    await _wait_for_rows()
    await asyncio.to_thread(batch_worker.stop)
    await _close_connections()
    await asyncio.to_thread(background_loop.stop, _close_connections)


async def _wait_for_rows() -> None:
    """Wait for the rows of cancelled calls: the ASGI server cancels late requests and does not wait for them."""
    deadline = time.monotonic() + LAST_ROWS_SECONDS
    while batch_worker.active_calls and time.monotonic() < deadline:
        await asyncio.sleep(0.01)


async def _close_connections() -> None:
    await transports.close_all()
    await egress.close_session()


def endpoint_settings() -> EndpointSettings:
    url = urlsplit(settings.PUBLIC_URL.lower())
    port = "" if url.port in {None, {"http": 80, "https": 443}[url.scheme]} else f":{url.port}"
    host = f"[{url.hostname}]" if ":" in str(url.hostname) else url.hostname
    return EndpointSettings(
        f"{url.scheme}://{host}{port}", is_allowed_host, f"{settings.PUBLIC_URL}{oauth.MCP_METADATA_PATH}"
    )
