"""The breaker around a model's endpoint, for the loop that runs agents."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

from common.executors import run_in_thread
from mcp.limits import breakers
from mcp.limits.breakers import GuardedCall
from supervisor.chat import ChatFault

FAULTS, SECONDS = 3, 60
#: A model may take its time; until then no other request tries whether its endpoint is back.
PROBE_SECONDS = 300.0


@asynccontextmanager
async def guarded(service: str) -> AsyncIterator[None]:
    """Raise `BreakerOpen`, or count what becomes of the one request that is made inside."""
    enter = partial(breakers.admit_call, service, threshold=FAULTS, recovery_timeout=SECONDS, seconds=PROBE_SECONDS)
    passage = await _entered(asyncio.create_task(run_in_thread(enter)))
    try:
        yield
    except ChatFault as fault:
        await run_in_thread(partial(passage.fail, fault.what) if fault.is_the_services else passage.succeed)
        raise
    except BaseException:
        await asyncio.shield(run_in_thread(passage.abandon))
        raise
    await run_in_thread(passage.succeed)


async def _entered(entering: "asyncio.Task[GuardedCall]") -> GuardedCall:
    try:
        return await asyncio.shield(entering)
    except asyncio.CancelledError:
        # The thread goes on, and may have become the one that tries.
        await asyncio.shield(_give_up(entering))
        raise


async def _give_up(entering: "asyncio.Task[GuardedCall]") -> None:
    await asyncio.wait({entering})
    if entering.exception() is None:
        await run_in_thread(entering.result().abandon)
