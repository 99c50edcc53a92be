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
from common.process import cpu_affinity
from mcp.client import transports
from supervisor import reaping, waking
from supervisor.nursery import Nursery
from supervisor.runner import bookkeeping, claiming, places
from supervisor.runner.bookkeeping import Flag
from supervisor.runner.claiming import Claimed
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
    def __init__(self, capacity: int, *, on_one_processor: bool = False) -> None:
        self._capacity, self._on_one_processor = capacity, on_one_processor
        self._runs: dict[UUID, tuple[Run, asyncio.Task[None]]] = {}
        self._thread = threading.Thread(target=self._begin, name="runner", daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._look = asyncio.Event()
        self._stopping = False
        # Where this process may be before it keeps to one, there its agents may be.
        self._nursery = Nursery(processors=cpu_affinity.get_allowed_cpus() if on_one_processor else ())
        self._pulse = Desk("runner-pulse")
        # What is written of one run is written in order, by one of these.
        self._pens = [Desk(f"runner-pen-{number}") for number in range(PENS)]
        self._id: UUID | None = None
        self._heard = 0.0
        #: Nobody knows whether the last claim was committed.
        self._unsure = False

    def start(self) -> None:
        self._thread.start()

    def poke(self) -> None:
        """There is something to start, or to end: look now, and again for what comes together with it."""
        if self._loop is not None:
            with suppress(RuntimeError):  # it has ended
                self._loop.call_soon_threadsafe(self._hear)

    def _hear(self) -> None:
        self._look.set()
        asyncio.get_running_loop().call_later(waking.AGAIN, self._look.set)

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
        beside = [asyncio.create_task(self._fence())]
        if self._on_one_processor:
            beside.append(asyncio.create_task(cpu_affinity.CpuPinner().run()))
        while not self._stopping:
            try:
                await self._turn()
            except AWAY as error:
                log.warning("The runner cannot reach the database: %s.", type(error).__name__)
            except Exception:
                log.exception("The runner failed, and goes on.")
            await self._rest()
        for task in beside:
            task.cancel()
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
        self._pass_on(await self._pulse.do(lambda: bookkeeping.flags(runner)))

    def _pass_on(self, flags: list[Flag]) -> None:
        for flag in flags:
            if (held := self._runs.get(flag.execution_id)) is not None:
                held[0].stop(flag)

    async def _claim(self) -> None:
        runner = self._id
        if runner is None or self._stopping:
            return
        if self._unsure:
            await self._take_unheard(runner)
        room, self._unsure = self._capacity - len(self._runs), True
        claimed = await self._pulse.do(lambda: claiming.claim(runner_id=runner, room=room))
        self._unsure = False
        for one in claimed:
            self._begin_run(one)
        if claimed and len(claimed) == room:
            # The word came here alone, and there may be more than there is room for.
            asyncio.get_running_loop().run_in_executor(None, waking.say)

    async def _take_unheard(self, runner: UUID) -> None:
        """The flags of these are heard before any of them starts: meanwhile some may have been called off."""
        known = set(self._runs)
        found = await self._pulse.do(lambda: claiming.unheard(runner_id=runner, known=known))
        flags = await self._pulse.do(lambda: bookkeeping.flags(runner)) if found else []
        for one in found:
            self._begin_run(one)
        self._pass_on(flags)

    def _begin_run(self, claimed: Claimed) -> None:
        key = claimed.run.pk
        run = Run(claimed, self._nursery, self._pens[key.int % PENS])
        task = asyncio.create_task(run.live())
        self._runs[key] = run, task
        task.add_done_callback(lambda _: self._forget(key))

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
        await transports.close_all()
        await egress.close_session()
        runner = self._id
        # What may be its own without its knowing is for others to find.
        if runner is not None and not self._runs and not self._unsure:
            with suppress(*AWAY):
                await self._pulse.do(lambda: bookkeeping.leave(runner))


def _tidy(left: list[Path]) -> None:
    for place in left:
        places.remove(place)


_here: list[Service] = []


def begin() -> None:
    """Run agents in this process from now on."""
    _here.append(Service(settings.RUNNER_CAPACITY, on_one_processor=settings.ONE_PROCESSOR))
    _here[-1].start()


def poke() -> None:
    for service in _here:
        service.poke()


def end() -> None:
    while _here:
        _here.pop().stop()
