"""Cancels a call when its client disconnects, or lets it continue."""

import asyncio
import logging
from collections.abc import Awaitable, Coroutine
from typing import Any, TypeVar

from common.asgi.bodies import Receive
from common.errors import GatehouseError

T = TypeVar("T")
log = logging.getLogger(__name__)
#: The calls that continue when their clients disconnect. The event loop itself keeps no tasks alive.
_continued_calls: set["asyncio.Task[Any]"] = set()


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
    await _wait_for_disconnect(receive)
    disconnected.set()
    task.cancel()


async def run_beyond_disconnect(receive: Receive, call: Coroutine[Any, Any, T]) -> T | None:
    """Await a call that continues if the client disconnects, and return None in that case.

    Raise `ProcessStopping` if the process is shutting down, which cancels the call."""
    loop = asyncio.get_running_loop()
    task, watcher = loop.create_task(call), loop.create_task(_wait_for_disconnect(receive))
    _continued_calls.add(task)
    task.add_done_callback(_continued_calls.discard)
    try:
        await asyncio.wait({task, watcher}, return_when=asyncio.FIRST_COMPLETED)
    except asyncio.CancelledError:
        current_task = asyncio.current_task()
        assert current_task is not None  # ASGI servers run each request in a task
        current_task.uncancel()
        task.cancel()
        await asyncio.wait({task})
        raise ProcessStopping from None
    finally:
        watcher.cancel()
    if task.done():
        if task.cancelled():
            raise ProcessStopping
        return task.result()
    task.add_done_callback(_log_failure)
    return None


def cancel_continued_calls() -> None:
    """Cancel the calls that continue without their clients, because the process is stopping."""
    for task in _continued_calls:
        task.cancel()


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _log_failure(task: "asyncio.Task[Any]") -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("a call failed after its client had disconnected", exc_info=error)


class ProcessStopping(GatehouseError):
    """The call was cancelled because its process is stopping. Its row has the reason `cancelled`."""

    code = "stopping"

    def __init__(self) -> None:
        super().__init__("Gatehouse stopped here before the call had ended. It may have had an effect.")
