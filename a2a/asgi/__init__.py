"""A2A over HTTP: a plain ASGI application, beside Django, for what is below `/agents/<name>`.

JSON-RPC of both versions at the address itself, 1.0's HTTP binding below it, 0.3's below its `/v1`.
"""

from typing import Any

from a2a.asgi import paths
from a2a.asgi.exchanges import Exchange
from common.asgi.bodies import AsgiApplication, Receive
from common.asgi.headers import security_headers

takes = paths.takes


def make_application() -> AsgiApplication:
    """It takes only scopes whose path `takes` says is one of its own."""
    always = security_headers()

    async def application(scope: dict[str, Any], receive: Receive, send: Any) -> None:
        await Exchange(scope, receive, send, always).run()

    return application
