"""The thread of a worker that delivers callbacks while any is due, many at once.

What a process was about when it ended is taken again once its lease has ended, under the same id.
"""

import asyncio
import logging
import time
from collections import Counter

from a2a import deliveries, posting, signatures
from a2a.deliveries import Parcel
from a2a.models import Delivery
from a2a.turns import Lane, Turns
from common.background import BackgroundThread, DueWorkRound

log = logging.getLogger(__name__)
MOST_AT_ONCE = 64
#: While answers are waited for, others may come due.
LOOK_EVERY = 0.25


def begin() -> None:
    """See to it that what is due is being delivered; returns at once."""
    if Delivery.objects.due().exists():
        office.wake()


def deliver_due() -> None:
    """Attempt everything that is due or comes due meanwhile, and return when nothing is under way."""
    asyncio.run(_Round().run())


class _Round(DueWorkRound[Lane]):
    """By whose each is, and the place that it is delivered to."""

    def __init__(self) -> None:
        super().__init__("callbacks", poll_interval=LOOK_EVERY)
        self._turns = Turns()

    async def _start_due_work(self) -> None:
        room = MOST_AT_ONCE - len(self._running_tasks)
        self._turns.busy = Counter(self._running_tasks.values())
        if room > 0:
            for parcel in await self._run_in_db_thread(lambda: deliveries.claim(room, turns=self._turns)):
                self._start(self._carry(parcel), Lane(parcel.delivery.owner_id, parcel.delivery.place))

    async def _carry(self, parcel: Parcel) -> None:
        delivery, body = parcel.delivery, parcel.delivery.body.encode()
        headers = signatures.headers(
            parcel.secrets, webhook_id=str(delivery.webhook_id), timestamp=int(time.time()), body=body
        )
        outcome = await posting.post(parcel.url, headers={**parcel.headers, **headers}, body=body)
        try:
            await self._run_in_db_thread(
                lambda: deliveries.settle(delivery, parcel.mark, outcome, confided=parcel.confided)
            )
        except Exception:
            # Its lease ends, and it is attempted again.
            log.exception("What became of a callback could not be written.")


office = BackgroundThread("callbacks", deliver_due, error_message="Callbacks could not be delivered.")
