"""The thread of a worker that carries tasks to other servers while there are any, many at once.

Each is leased to one process, which renews that while it is at it. What a process was about when it ended is taken up
by another once its lease has ended: whoever carries finds by the task's row how far it was.
"""

import asyncio
import logging
import time
from dataclasses import dataclass
from uuid import uuid4

from a2a import carrier_leases as leases
from a2a import carriers
from a2a.carriers import Carrier, Elsewhere
from a2a.models import Task
from common.background import BackgroundThread, DueWorkRound

log = logging.getLogger(__name__)
MOST_AT_ONCE = 64
#: Somebody may have ended a task meanwhile, or sent another.
LOOK_EVERY = 0.5
RENEW_EVERY = 10.0


def begin() -> None:
    """See to it that what is due is being carried; returns at once."""
    if leases.due().exists():
        office.wake()


def carry_due() -> None:
    """Carry everything that is due or comes due meanwhile, and return when nothing is under way."""
    asyncio.run(_Round().run())


@dataclass
class _Errand:
    """A task that this process carries."""

    task: Task
    carrier: Carrier
    #: There is nothing to break off any more: it has returned, or the task was ended or taken by others.
    is_over: bool = False


class _Round(DueWorkRound[_Errand]):
    def __init__(self) -> None:
        super().__init__("carrying", poll_interval=LOOK_EVERY)
        self._mark = uuid4()
        self._renewed = time.monotonic()

    async def _start_due_work(self) -> None:
        room, mark = MOST_AT_ONCE - len(self._running_tasks), self._mark
        if room < 1:
            return
        mine = {errand.task.pk for errand in self._running_tasks.values()}
        for task in await self._run_in_db_thread(lambda: leases.claim(room, mark)):
            if task.pk in mine:
                # Its lease had ended, and it was nobody else's: by this it goes on.
                continue
            carrier = carriers.of(task.runtime_kind)
            assert carrier is not None  # only what somebody carries is claimed
            errand = _Errand(task, carrier)
            self._start(self._run(errand), errand)

    async def _check_running_work(self) -> None:
        """Break off what is over, and keep what is ours."""
        mark, mine = self._mark, [errand.task.pk for errand in self._running_tasks.values()]
        renew = time.monotonic() - self._renewed > RENEW_EVERY
        if renew:
            self._renewed = time.monotonic()
        held = await self._run_in_db_thread(lambda: leases.held(mine, mark, renew=renew))
        for job, errand in self._running_tasks.items():
            if errand.task.pk not in held and not errand.task.completed_at and not errand.is_over:
                errand.is_over = True
                job.cancel()

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
        await self._run_in_db_thread(lambda: leases.put_down(task, mark, broke=broke))

    async def _forward(self, errand: _Errand) -> None:
        """Its server is told that nobody waits for it any more: once, as well as can be."""
        pk, mark = errand.task.pk, self._mark
        now = await self._run_in_db_thread(lambda: leases.ended_by_others(pk, mark))
        if now is None:
            return
        try:
            await errand.carrier.forward_cancel(now)
        except Exception:
            log.exception("A server could not be told that a task is over.", extra={"task": str(pk)})
        await self._run_in_db_thread(lambda: leases.settle(pk, mark))


office = BackgroundThread("carrying", carry_due, error_message="Tasks could not be carried.")
