"""The runner of one worker process: a thread with an event loop that claims runs, keeps them, and is heard of.

It looks for itself every half second; a message from the broker only makes it look at once. The database row is the
truth: what was claimed is ours while we are heard of, and when we could not be for long, everything is ended before
others may call it lost.
"""

import asyncio
import logging
import threading
import time
from contextlib import suppress
from pathlib import Path
from uuid import UUID

from django.conf import settings

from common import egress
from mcp import upstream
from supervisor import reaping, slots
from supervisor.models import Execution
from supervisor.nursery import Nursery
from supervisor.runner import bookkeeping, places
from supervisor.runner.desk import AWAY, Desk
from supervisor.runner.run import STOPPED, Run

log = logging.getLogger(__name__)
LOOK_EVERY = 0.5
BEAT_EVERY = 5.0
#: Without a heartbeat for so long we end what we run: others call it lost at `reaping.SILENT_FOR`.
FENCE_AFTER = 22.0
#: Between asking the worker's runs to end with it and its own end.
PATIENCE = 4.0
PENS = 4
GIVEN_UP = "Its worker could not reach the database for too long."


class Service:
    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._runs: dict[UUID, tuple[Run, asyncio.Task[None]]] = {}
        self._thread = threading.Thread(target=self._begin, name="runner", daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._look = asyncio.Event()
        self._stopping = False
        self._nursery = Nursery()
        self._pulse = Desk("runner-pulse")
        # What is written of one run is written in order, by one of these.
        self._pens = [Desk(f"runner-pen-{number}") for number in range(PENS)]
        self._id: UUID | None = None
        self._heard = 0.0

    def start(self) -> None:
        self._thread.start()

    def poke(self) -> None:
        """There is something to start, or to end: look now."""
        if self._loop is not None:
            with suppress(RuntimeError):  # it has ended
                self._loop.call_soon_threadsafe(self._look.set)

    def stop(self) -> None:
        """End everything that runs here, and return when it is gone and on record, or too late for that."""
        self._stopping = True
        self.poke()
        self._thread.join(PATIENCE)

    def _begin(self) -> None:
        # Our own kind of loop: children are waited for by their pipes, and no thread waits for any.
        with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
            self._loop = runner.get_loop()
            runner.run(self._live())
        for desk in (self._pulse, *self._pens):
            desk.close()

    async def _live(self) -> None:
        fence = asyncio.create_task(self._fence())
        while not self._stopping:
            try:
                await self._turn()
            except AWAY as error:
                log.warning("The runner cannot reach the database: %s.", type(error).__name__)
            except Exception:
                log.exception("The runner failed, and goes on.")
            await self._rest()
        fence.cancel()
        await self._end()

    async def _fence(self) -> None:
        """By a clock of its own: what a turn waits for may take longer than the others wait."""
        while True:
            await asyncio.sleep(1)
            if self._runs and time.monotonic() - self._heard > FENCE_AFTER:
                self._give_up()

    async def _turn(self) -> None:
        if self._id is None:
            await self._arrive()
        if time.monotonic() - self._heard > BEAT_EVERY and not await self._beat():
            return
        await self._hear_flags()
        await self._claim()

    async def _arrive(self) -> None:
        """Clear up after workers of this host that died, and say that we are here."""
        await self._pulse.do(reaping.reap_dead_of_this_host)
        at = time.monotonic()
        self._id = await self._pulse.do(lambda: bookkeeping.register(self._capacity))
        self._heard = at
        # Looked at before it is asked which are in use: one that a colleague makes meanwhile is not among them.
        found = await asyncio.to_thread(places.found)
        used = await self._pulse.do(bookkeeping.used_places)
        await asyncio.to_thread(_tidy, [place for place in found if place.name not in used])

    async def _beat(self) -> bool:
        runner, used, at = self._id, len(self._runs), time.monotonic()
        assert runner is not None  # it arrived
        if await self._pulse.do(lambda: bookkeeping.heard(runner, used)):
            self._heard = at
            return True
        log.error("Others have given this runner up; it ends what it runs and begins anew.")
        self._give_up()
        self._id = None
        return False

    async def _hear_flags(self) -> None:
        runner = self._id
        if not self._runs or runner is None:
            return
        for flag in await self._pulse.do(lambda: bookkeeping.flags(runner)):
            if (held := self._runs.get(flag.execution_id)) is not None:
                held[0].stop(flag)

    async def _claim(self) -> None:
        runner, room = self._id, self._capacity - len(self._runs)
        if runner is None or self._stopping:
            return
        for execution in await self._pulse.do(lambda: slots.claim(runner_id=runner, room=room)):
            self._begin_run(execution)

    def _begin_run(self, execution: Execution) -> None:
        run = Run(execution, self._nursery, self._pens[execution.pk.int % PENS])
        task = asyncio.create_task(run.live())
        self._runs[execution.pk] = run, task
        task.add_done_callback(lambda _: self._forget(execution.pk))

    def _forget(self, execution_id: UUID) -> None:
        del self._runs[execution_id]
        # Its place may be another's.
        self._look.set()

    def _give_up(self) -> None:
        for run, _ in self._runs.values():
            run.orphan(GIVEN_UP)

    async def _rest(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(LOOK_EVERY):
                await self._look.wait()
        self._look.clear()

    async def _end(self) -> None:
        for run, _ in self._runs.values():
            run.orphan(STOPPED)
        tasks = [task for _, task in self._runs.values()]
        if tasks:
            await asyncio.wait(tasks, timeout=PATIENCE - 1)
        await self._nursery.close()
        # What models and their tools were reached by.
        await upstream.close_all()
        await egress.close()
        runner = self._id
        if runner is not None and not self._runs:
            with suppress(*AWAY):
                await self._pulse.do(lambda: bookkeeping.leave(runner))


def _tidy(left: list[Path]) -> None:
    for place in left:
        places.remove(place)


_here: list[Service] = []


def begin() -> None:
    """Run agents in this process from now on."""
    _here.append(Service(settings.RUNNER_CAPACITY))
    _here[-1].start()


def poke() -> None:
    for service in _here:
        service.poke()


def end() -> None:
    while _here:
        _here.pop().stop()
