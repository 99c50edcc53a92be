"""The application behind the real server, on a free port of the loopback."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn

from common.asgi.bodies import AsgiApplication
from mcp.server import application as asgi
from mcp.server.exchange import GatewayBackend
from tests.services.waiting import wait_for

DEADLINE = 10.0


@contextmanager
def served(gateway: GatewayBackend) -> Iterator[str]:
    """The URL of `/mcp`."""
    settings = uvicorn.Config(
        ending(asgi.make_application(gateway)), port=0, lifespan="on", log_config=None, timeout_graceful_shutdown=2
    )
    server = uvicorn.Server(settings)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        wait_for(lambda: server.started, DEADLINE, "serving")
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/mcp"
    finally:
        server.should_exit = True
        thread.join(DEADLINE)
        assert not thread.is_alive()


def ending(application: AsgiApplication) -> AsgiApplication:
    """As the web process does it: what calls kept open is let go of, in the loop that opened it."""

    async def whole(scope: dict[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] != "lifespan":
            await application(scope, receive, send)
            return
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await asgi.close()
        await send({"type": "lifespan.shutdown.complete"})

    return whole
