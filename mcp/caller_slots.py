"""How much of a process one caller may occupy while others call: a few calls at a time, the rest in its own line.

All calls of a process run on one event loop. Thousands of calls that one identity sends at once would each take their
step before another identity's call takes its next one. While another identity has called within `CONTENDED_SECONDS`, a
caller has `MAX_ACTIVE` slots; its further calls wait, and beyond `MAX_WAITING` they are refused with `overloaded`. A
call gives its slot back when it ends, and at the latest after `SLOT_SECONDS`: a call that waits for its server occupies
nothing. An identity that calls alone has no limit here.
"""

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager
from uuid import UUID

from mcp.clerk.words import CallerOverloaded

MAX_ACTIVE = 2
MAX_WAITING = 1000
SLOT_SECONDS = 0.05
CONTENDED_SECONDS = 1.0
#: A call that waited so long is refused: its caller is told to come again, and not left waiting for nothing.
MAX_WAIT_SECONDS = 2.0
NEVER = float("-inf")
BUSY = "More calls of this identity wait than can be served in time. Send it again, and fewer at once."


class Slot:
    """A call's slot, given back once."""

    def __init__(self, slots: "CallerSlots", caller: Hashable, loop: asyncio.AbstractEventLoop) -> None:
        self._slots, self._caller = slots, caller
        self._timer: asyncio.TimerHandle | None = loop.call_later(SLOT_SECONDS, self.release)

    def release(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._slots.hand_on(self._caller)


class CallerSlots:
    """Of one event loop: nothing here is for other threads."""

    def __init__(self) -> None:
        self._active: dict[Hashable, int] = {}
        self._waiting: dict[Hashable, deque[tuple[float, asyncio.Future[None]]]] = {}
        #: The identity that called last, and the last one besides it, each with the time.
        self._last: tuple[Hashable, float] = (None, NEVER)
        self._other: tuple[Hashable, float] = (None, NEVER)

    @asynccontextmanager
    async def slot(self, caller: Hashable) -> AsyncIterator[None]:
        loop = asyncio.get_running_loop()
        await self._enter(caller, loop)
        slot = Slot(self, caller, loop)
        try:
            yield
        finally:
            slot.release()

    async def _enter(self, caller: Hashable, loop: asyncio.AbstractEventLoop) -> None:
        now = loop.time()
        contended = self._is_contended(caller, now)
        active = self._active.get(caller, 0)
        if not contended or active < MAX_ACTIVE:
            self._active[caller] = active + 1
            return
        line = self._waiting.setdefault(caller, deque())
        if len(line) >= MAX_WAITING:
            raise CallerOverloaded(BUSY, retry_after=1)
        turn = loop.create_future()
        line.append((now + MAX_WAIT_SECONDS, turn))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                # The slot came just then: it is somebody else's.
                self.hand_on(caller)
            raise

    def hand_on(self, caller: Hashable) -> None:
        """A slot is free: the next of this caller's line takes it."""
        line = self._waiting.get(caller)
        now = asyncio.get_running_loop().time()
        while line:
            deadline, turn = line.popleft()
            if turn.done():
                continue
            if deadline <= now:
                turn.set_exception(CallerOverloaded(BUSY, retry_after=1))
                continue
            turn.set_result(None)
            return
        self._waiting.pop(caller, None)
        left = self._active[caller] - 1
        if left:
            self._active[caller] = left
        else:
            del self._active[caller]

    def _is_contended(self, caller: Hashable, now: float) -> bool:
        """Whether another identity has called just now. Callers that nobody knows yet are no others."""
        last = self._last[0]
        other = self._other[1] if caller == last else self._last[1]
        if isinstance(caller, UUID):
            if caller != last:
                self._other = self._last
            self._last = (caller, now)
        return now - other <= CONTENDED_SECONDS


class _OfLoops(threading.local):
    """Each event loop of this process runs in a thread of its own."""

    def __init__(self) -> None:
        self.slots = CallerSlots()
        self.loop: asyncio.AbstractEventLoop | None = None


_of_loops = _OfLoops()


def of_running_loop() -> CallerSlots:
    """The slots of the loop that runs here; a loop that follows another in its thread begins anew."""
    loop = asyncio.get_running_loop()
    if _of_loops.loop is not loop:
        _of_loops.loop, _of_loops.slots = loop, CallerSlots()
    return _of_loops.slots
