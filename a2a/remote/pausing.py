"""How long to wait: before what failed is tried again, and from one look at a task to the next."""

import asyncio
import random
import time

from a2a.remote.troubles import Trouble

#: Before each further try to hand a message over.
AGAIN = (1.0, 2.0, 4.0)
#: Of one that the agent has, from one look to the next: sooner after news.
SOONEST, LATEST, SLOWER = 0.5, 10.0, 1.5
#: Between looks that fail, and how long they may.
LONGEST, PATIENCE = 30.0, 600.0
#: The longest that an agent may ask for.
MOST_ASKED = 60.0


async def before_again(pause: float, trouble: Trouble) -> None:
    await _rest(max(pause, min(trouble.retry_after, MOST_ASKED)))


class Pace:
    """Of one task."""

    def __init__(self) -> None:
        self._wait = SOONEST
        self._failing_since: float | None = None
        self._failures = 0

    def went_well(self, *, news: bool) -> None:
        self._failing_since, self._failures = None, 0
        self._wait = SOONEST if news else min(self._wait * SLOWER, LATEST)

    def bears(self) -> bool:
        """Whether another failure is borne."""
        now = time.monotonic()
        self._failing_since = self._failing_since or now
        self._failures += 1
        return now - self._failing_since < PATIENCE

    async def rest(self) -> None:
        await _rest(self._wait)

    async def recover(self, trouble: Trouble) -> None:
        await before_again(min(2.0 ** (self._failures - 1), LONGEST), trouble)


async def _rest(seconds: float) -> None:
    """Not all at the same moment."""
    await asyncio.sleep(seconds * random.uniform(0.8, 1.2))  # noqa: S311 - nobody gains by guessing it
