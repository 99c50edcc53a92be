"""The thread of a worker that carries tasks to other servers while there are any, many at once.

Each is leased to one process, which renews that while it is at it. What a process was about when it ended is taken up
by another once its lease has ended: whoever carries finds by the task's row how far it was.
"""

import asyncio
import logging
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from uuid import UUID, uuid4

from a2a import carrier_leases as leases
from a2a import carriers
from a2a.carriers import Carrier, Elsewhere
from a2a.models import Task
from common import egress
from mcp.threads import in_thread

log = logging.getLogger(__name__)
MOST_AT_ONCE = 64
#: Somebody may have ended a task meanwhile, or sent another.
LOOK_EVERY = 0.5
RENEW_EVERY = 10.0
#: Each with a connection to the database.
CLERKS = 2


def begin() -> None:
    """See to it that what is due is being carried; returns at once."""
    if leases.due().exists():
        office.poke()


def carry_due() -> None:
    """Carry everything that is due or comes due meanwhile, and return when nothing is under way."""
    asyncio.run(_Round().run())


class Office:
    """At most one thread of this process, for as long as there is something to do."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._again = False

    def poke(self) -> None:
        with self._lock:
            self._again = True
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="carrying", daemon=True)
                self._thread.start()

    def _work(self) -> None:
        while self._has_more():
            try:
                carry_due()
            except Exception:
                # The next tick tries again.
                log.exception("Tasks could not be carried.")

    def _has_more(self) -> bool:
        with self._lock:
            again, self._again = self._again, False
            if not again:
                self._thread = None
            return again


@dataclass
class _Errand:
    """A task that this process carries."""

    task: Task
    carrier: Carrier
    job: "asyncio.Task[None]" = field(init=False)
    #: There is nothing to break off any more: it has returned, or the task was ended or taken by others.
    is_over: bool = False


class _Round:
    def __init__(self) -> None:
        self._clerks = ThreadPoolExecutor(CLERKS, "carrying")
        self._errands: dict[UUID, _Errand] = {}
        self._mark = uuid4()
        self._renewed = time.monotonic()

    async def run(self) -> None:
        try:
            await self._take()
            while self._errands:
                await asyncio.wait(
                    [one.job for one in self._errands.values()],
                    timeout=LOOK_EVERY, return_when=asyncio.FIRST_COMPLETED,
                )  # fmt: skip
                self._errands = {pk: one for pk, one in self._errands.items() if not one.job.done()}
                await self._look()
                await self._take()
        finally:
            await self._end()

    async def _take(self) -> None:
        room, mark = MOST_AT_ONCE - len(self._errands), self._mark
        if room < 1:
            return
        for task in await in_thread(lambda: leases.claim(room, mark), self._clerks):
            if task.pk in self._errands:
                # Its lease had ended, and it was nobody else's: by this it goes on.
                continue
            carrier = carriers.of(task.runtime_kind)
            assert carrier is not None  # only what somebody carries is claimed
            errand = self._errands[task.pk] = _Errand(task, carrier)
            errand.job = asyncio.create_task(self._run(errand))

    async def _look(self) -> None:
        """Break off what is over, and keep what is ours."""
        mark, mine = self._mark, list(self._errands)
        renew = time.monotonic() - self._renewed > RENEW_EVERY
        if renew:
            self._renewed = time.monotonic()
        held = await in_thread(lambda: leases.held(mine, mark, renew=renew), self._clerks)
        for pk, errand in self._errands.items():
            if pk not in held and not errand.task.completed_at and not errand.is_over:
                errand.is_over = True
                errand.job.cancel()

    async def _run(self, errand: _Errand) -> None:
        try:
            if errand.task.is_open:
                await self._carry(errand)
            else:
                await self._forward(errand)
        except Exception:
            # Its lease ends, and it is taken up again.
            log.exception("What became of a carried task could not be written.")

    async def _carry(self, errand: _Errand) -> None:
        task, mark, broke = errand.task, self._mark, False
        try:
            await errand.carrier.carry(task.pk, leases.check(mark))
        except asyncio.CancelledError:
            if not errand.is_over:
                raise
            await self._forward(errand)
            return
        except Elsewhere:
            log.info("A carried task is with another process by now.", extra={"task": str(task.pk)})
        except Exception:
            log.exception("A task could not be carried.", extra={"task": str(task.pk)})
            broke = True
        errand.is_over = True
        await in_thread(lambda: leases.put_down(task, mark, broke=broke), self._clerks)

    async def _forward(self, errand: _Errand) -> None:
        """Its server is told that nobody waits for it any more: once, as well as can be."""
        pk, mark = errand.task.pk, self._mark
        now = await in_thread(lambda: leases.ended_by_others(pk, mark), self._clerks)
        if now is None:
            return
        try:
            await errand.carrier.forward_cancel(now)
        except Exception:
            log.exception("A server could not be told that a task is over.", extra={"task": str(pk)})
        await in_thread(lambda: leases.settle(pk, mark), self._clerks)

    async def _end(self) -> None:
        jobs = [one.job for one in self._errands.values()]
        for job in jobs:
            job.cancel()
        await asyncio.gather(*jobs, return_exceptions=True)
        await egress.close()
        self._clerks.shutdown(wait=False)


office = Office()
