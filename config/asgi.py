"""The web process: Django over ASGI, the MCP server beside it, and a word to the others that it lives."""

import asyncio
import gc
import os
import sys
from typing import Any

import django
from django.conf import settings

from common.asgi.bodies import limit_body
from common.asgi.headers import security_headers

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
django.setup(set_prefix=False)

# After the line above, which loads the models that these read and write.
from a2a import asgi as tasks  # noqa: E402 - the same
from a2a.api.waiting import Waiting  # noqa: E402 - the same
from a2a.operations.desk import desk as operations  # noqa: E402 - the same
from common.asgi.django_handler import ThreadedHandler  # noqa: E402 - the same
from common.process.cpu_affinity import CpuPinner  # noqa: E402 - the same
from config import metrics  # noqa: E402 - see the line before
from config.pulse import Pulse  # noqa: E402 - the same
from mcp.api.urls import CALL  # noqa: E402 - the same
from mcp.gateway import pipeline  # noqa: E402 - the same
from mcp.protocol.endpoints import find_server_name  # noqa: E402 - the same
from mcp.server import application as mcp_application  # noqa: E402 - the same
from mcp.server import rest_handler  # noqa: E402 - the same
from nhi.audit import trigger_repair  # noqa: E402 - the same
from supervisor.api.following import Followed  # noqa: E402 - the same

# Two threads share this process's work: the one that serves, and the clerk's, which waits for the database several
# times a call and after each wait for its turn.
sys.setswitchinterval(0.001)
pages = limit_body(Waiting(Followed(ThreadedHandler())), limit=1024 * 1024)
tools = metrics.counted(mcp_application.make_application(pipeline), metrics.counting("mcp"))
agents = metrics.counted(tasks.make_application(), metrics.counting("a2a"))
calls = rest_handler.make_application(pages, security_headers(), metrics.counting(f"api/nhi/{CALL}"))


async def application(scope: dict[str, Any], receive: Any, send: Any) -> None:
    if scope["type"] == "lifespan":
        await live(receive, send)
    elif scope["type"] == "http" and find_server_name(scope["path"]) is not None:
        await tools(scope, receive, send)
    elif scope["type"] == "http" and tasks.takes(scope["method"], scope["path"]):
        await agents(scope, receive, send)
    else:
        await calls(scope, receive, send)


async def live(receive: Any, send: Any) -> None:
    """Beat from start-up to shutdown: in the process that serves, never in one that forks it."""
    pulse, background = Pulse(), set[asyncio.Task[None]]()
    while True:
        message = await receive()
        if message["type"] == "lifespan.startup":
            pulse.start()
            # In the log at once, for whoever runs this process without the worker that repairs.
            background.add(asyncio.create_task(asyncio.to_thread(trigger_repair.log_findings)))
            if settings.ONE_PROCESSOR:
                background.add(asyncio.create_task(CpuPinner().run()))
            # What is loaded by now stays: the collector need not walk it again and again, while calls wait.
            gc.collect()
            gc.freeze()
            await send({"type": "lifespan.startup.complete"})
        else:
            for task in background:
                task.cancel()
            try:
                await mcp_application.close()
                await asyncio.to_thread(operations.close)
            finally:
                await pulse.stop()
            await send({"type": "lifespan.shutdown.complete"})
            return
