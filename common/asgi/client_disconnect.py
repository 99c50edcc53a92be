"""Cancels a call when its client disconnects."""

import asyncio
from collections.abc import Awaitable
from typing import Any, TypeVar

from common.asgi.bodies import Receive
from common.errors import GatehouseError

T = TypeVar("T")


async def run_until_disconnect(receive: Receive, call: Awaitable[T]) -> T | None:
    """Await a call and cancel it if the client disconnects. Clients cancel a call by closing its response.

    Return None after a disconnect. Raise `ProcessStopping` if the call was cancelled and the client is still connected:
    the process is shutting down."""
    task = asyncio.current_task()
    assert task is not None  # ASGI servers run each request in a task
    disconnected = asyncio.Event()
    watcher = asyncio.get_running_loop().create_task(_cancel_on_disconnect(receive, disconnected, task))
    try:
        return await call
    except asyncio.CancelledError:
        task.uncancel()
        if not disconnected.is_set():
            raise ProcessStopping from None
        return None
    finally:
        watcher.cancel()


async def _cancel_on_disconnect(receive: Receive, disconnected: asyncio.Event, task: "asyncio.Task[Any]") -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    disconnected.set()
    task.cancel()


class ProcessStopping(GatehouseError):
    """The call was cancelled because its process is stopping. Its row has the reason `cancelled`."""

    code = "stopping"

    def __init__(self) -> None:
        super().__init__("Gatehouse stopped here before the call had ended. It may have had an effect.")
