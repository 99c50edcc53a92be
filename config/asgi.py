"""The web process: Django over ASGI, and a word to the others that it lives."""

import os
from typing import Any

from django.core.asgi import get_asgi_application

from common.asgi import bounded

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
django = bounded(get_asgi_application(), limit=1024 * 1024)

# After the line above, which loads the models that this writes.
from config.pulse import Pulse  # noqa: E402 - see the line before


async def application(scope: dict[str, Any], receive: Any, send: Any) -> None:
    if scope["type"] == "lifespan":
        await live(receive, send)
    else:
        await django(scope, receive, send)


async def live(receive: Any, send: Any) -> None:
    """Beat from start-up to shutdown: in the process that serves, never in one that forks it."""
    pulse = Pulse()
    while True:
        message = await receive()
        if message["type"] == "lifespan.startup":
            pulse.start()
            await send({"type": "lifespan.startup.complete"})
        else:
            await pulse.stop()
            await send({"type": "lifespan.shutdown.complete"})
            return
