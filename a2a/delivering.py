"""The thread of a worker that delivers callbacks while any is due, many at once.

Waiting for receivers is done on an event loop of its own: a worker's turn is short and others need it. What a process
was about when it ended is taken again once its lease has ended, under the same id.
"""

import asyncio
import logging
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

from a2a import deliveries, posting, signatures
from a2a.deliveries import Parcel
from a2a.models import Delivery
from common import egress
from mcp.threads import in_thread

log = logging.getLogger(__name__)
MOST_AT_ONCE = 64
#: While answers are waited for, others may come due.
LOOK_EVERY = 0.25
#: Each with a connection to the database.
CLERKS = 2


def begin() -> None:
    """See to it that what is due is being delivered; returns at once."""
    if Delivery.objects.due().exists():
        office.poke()


def deliver_due() -> None:
    """Attempt everything that is due or comes due meanwhile, and return when nothing is under way."""
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
                self._thread = threading.Thread(target=self._work, name="callbacks", daemon=True)
                self._thread.start()

    def _work(self) -> None:
        while self._has_more():
            try:
                deliver_due()
            except Exception:
                # The next tick tries again.
                log.exception("Callbacks could not be delivered.")

    def _has_more(self) -> bool:
        with self._lock:
            again, self._again = self._again, False
            if not again:
                self._thread = None
            return again


class _Round:
    def __init__(self) -> None:
        self._clerks = ThreadPoolExecutor(CLERKS, "callbacks")
        #: What is under way, with its place.
        self._under_way: dict[asyncio.Task[None], str] = {}

    async def run(self) -> None:
        try:
            await self._take()
            while self._under_way:
                await asyncio.wait(self._under_way, timeout=LOOK_EVERY, return_when=asyncio.FIRST_COMPLETED)
                self._under_way = {task: place for task, place in self._under_way.items() if not task.done()}
                await self._take()
        finally:
            await self._end()

    async def _take(self) -> None:
        room, busy = MOST_AT_ONCE - len(self._under_way), Counter(self._under_way.values())
        if room > 0:
            for parcel in await in_thread(lambda: deliveries.claim(room, busy=busy), self._clerks):
                self._under_way[asyncio.create_task(self._carry(parcel))] = parcel.delivery.place

    async def _carry(self, parcel: Parcel) -> None:
        delivery, body = parcel.delivery, parcel.delivery.body.encode()
        headers = signatures.headers(
            parcel.secrets, webhook_id=str(delivery.webhook_id), timestamp=int(time.time()), body=body
        )
        outcome = await posting.post(parcel.url, headers={**parcel.headers, **headers}, body=body)
        try:
            await in_thread(lambda: deliveries.settle(delivery, parcel.mark, outcome), self._clerks)
        except Exception:
            # Its lease ends, and it is attempted again.
            log.exception("What became of a callback could not be written.")

    async def _end(self) -> None:
        for task in self._under_way:
            task.cancel()
        await asyncio.gather(*self._under_way, return_exceptions=True)
        await egress.close()
        self._clerks.shutdown(wait=False)


office = Office()
