"""The clerk's desk: one thread of each process works off what its callers bring, a batch at a time.

Every decision reads committed facts after its wish arrived, every answer follows a commit, and the cost of both is
shared by all that came meanwhile.
"""

import logging
import os
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

from django.db import DatabaseError, InterfaceError, OperationalError, connection
from psycopg.errors import DeadlockDetected

from common.errors import RecordUnavailable
from mcp.gateway.batch import database, renewing, reserving, result_writer
from mcp.gateway.batch.callers import callers
from mcp.gateway.batch.fair_queue import FairQueue, Limits
from mcp.gateway.types import Answer, CallerOverloaded, DatabaseAway, Outcome, Overloaded, Wish
from nhi.credentials import tokens

log = logging.getLogger(__name__)

#: A batch holds up whoever comes when it has begun, so each of several callers fills a small part of the largest.
LIMITS = Limits(total=4000, share=1000, batch=200, turn=4, contended=0.5)
#: Between two looks at the leases of calls in flight, and at rows that could not be written.
TURN = 1.0
LONGEST_END = 10.0
#: How often a wish is decided anew because access changed under it.
MOST_ROUNDS = 5
AWAY = (OperationalError, InterfaceError)


@dataclass
class Item:
    work: Wish | Outcome
    future: "Future[Any]" = field(default_factory=Future)


class Desk:
    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """A fork inherits no thread, and no call of its parent's is its own."""
        self._items: FairQueue[Item] = FairQueue(LIMITS)
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self.flights = renewing.Flights()
        #: Outcomes that could not be written: nothing is decided until one of them was.
        self._unwritten: list[Outcome] = []
        #: A refusal could not be written: the next decision waits until a row was tried out.
        self._doubtful = False

    def require_room(self, shown: tokens.ParsedBearerToken, source: str) -> None:
        """Turn away whoever could not be decided about in time, before its call costs anything more."""
        if not self._items.has_room(callers.key(shown, source)):
            raise self._overloaded()

    def decide(self, wish: Wish) -> "Future[Answer]":
        item = Item(wish)
        if self._items.put(callers.key(wish.shown, wish.source), item):
            self._see_to_it()
        else:
            item.future.set_exception(self._overloaded())
        return item.future

    def record(self, outcome: Outcome) -> "Future[bool]":
        """True when this outcome is the call's row; false when the call had been given up before."""
        item = Item(outcome)
        self._items.put_first(item)
        self._see_to_it()
        return item.future

    def stop(self) -> None:
        """Finish what was brought and what comes of it: a call that is decided now and given up gets its row, too."""
        deadline = time.monotonic() + LONGEST_END
        while time.monotonic() < deadline:
            with self._lock:
                thread, self._thread = self._thread, None
            if thread is None:
                return
            self._items.close()
            thread.join(max(deadline - time.monotonic(), 0))

    def _overloaded(self) -> Overloaded | CallerOverloaded:
        if self._items.is_full():
            return Overloaded("More calls wait than can be decided in time.", retry_after=1)
        return CallerOverloaded("More calls of this identity wait than can be decided in time.", retry_after=1)

    def _see_to_it(self) -> None:
        if self._thread is not None:
            return
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="clerk", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        looked, closed = time.monotonic(), False
        while True:
            batch = self._items.take(0 if closed else TURN)
            self._work(batch.items)
            closed = closed or batch.closed
            if closed and self._items.is_empty():
                connection.close()
                return
            if time.monotonic() - looked >= TURN:
                looked = time.monotonic()
                self._look_after_flights()

    def _work(self, batch: Sequence[Item]) -> None:
        outcomes = [item for item in batch if isinstance(item.work, Outcome)]
        # Whoever has gone meanwhile is not decided about.
        wishes = [item for item in batch if isinstance(item.work, Wish) and item.future.set_running_or_notify_cancel()]
        if outcomes:
            self._attempt(outcomes, self._record)
        if wishes:
            self._attempt(wishes, self._reserve)

    def _attempt(self, items: Sequence[Item], work: Callable[[Sequence[Item]], None], tries: int = 2) -> None:
        """Together; one by one when a single item is what cannot be worked off."""
        try:
            database.prepare()
            work(items)
        except RecordUnavailable as error:
            self._fail(items, error)
        except AWAY as error:
            if tries > 1 and isinstance(error.__cause__, DeadlockDetected):
                self._attempt(items, work, tries - 1)
                return
            log.warning("the database is away", exc_info=error)
            with suppress(Exception):
                connection.close()
            self._fail(items, DatabaseAway())
        except Exception as error:
            self._attempt_apart(items, error, tries)

    def _attempt_apart(self, items: Sequence[Item], error: Exception, tries: int) -> None:
        """One of them is at fault; on its own it is tried again once, for somebody else's row may have stood in the
        way. What was written though nothing was heard of it is not written twice."""
        left = [item for item in items if not item.future.done()]
        if len(left) > 1 or (left and tries > 1):
            for item in left:
                self._attempt([item], self._reserve if isinstance(item.work, Wish) else self._record_again, 1)
            return
        log.error("a call could not be worked off", exc_info=error)
        self._doubtful = self._doubtful or isinstance(error, DatabaseError)
        self._fail(left, RecordUnavailable() if isinstance(error, DatabaseError) else error)

    def _fail(self, items: Sequence[Item], error: Exception) -> None:
        for item in items:
            if item.future.done():
                continue
            if isinstance(item.work, Outcome):
                self._unwritten.append(item.work)
                error = RecordUnavailable()
            item.future.set_exception(error)

    def _reserve(self, items: Sequence[Item]) -> None:
        if self._unwritten:
            raise RecordUnavailable
        if self._doubtful:
            result_writer.try_out()
            self._doubtful = False
        by_call = {item.work.call_id: item for item in items if isinstance(item.work, Wish)}
        answers = reserving.reserve([item.work for item in by_call.values() if isinstance(item.work, Wish)])
        for call_id, answer in answers.items():
            self._answer(by_call[call_id], answer)

    def _answer(self, item: Item, answer: Answer | None) -> None:
        assert isinstance(item.work, Wish)
        if answer is not None:
            self.flights.begin(answer)
            item.future.set_result(answer)
        elif item.work.rounds >= MOST_ROUNDS:
            item.future.set_exception(Overloaded("Access changes too fast to decide.", retry_after=1))
        else:
            again = Item(replace(item.work, rounds=item.work.rounds + 1), item.future)
            self._work_again(again)

    def _work_again(self, item: Item) -> None:
        """At once, and not behind all that came since."""
        self._attempt([item], self._reserve)

    def _record(self, items: Sequence[Item]) -> None:
        self._written(items, result_writer.record)

    def _record_again(self, items: Sequence[Item]) -> None:
        self._written(items, result_writer.again)

    def _written(self, items: Sequence[Item], write: Callable[[Sequence[Outcome]], set[UUID]]) -> None:
        outcomes = [item.work for item in items if isinstance(item.work, Outcome)]
        written = write(outcomes)
        for item, outcome in zip(items, outcomes, strict=True):
            self.flights.end(outcome.ticket.call_id)
            item.future.set_result(outcome.ticket.call_id in written)

    def _look_after_flights(self) -> None:
        if not self._unwritten and not self.flights:
            return
        try:
            database.prepare()
            self._write_the_unwritten()
            self.flights.renew()
        except Exception:
            # The next turn tries again; until then nothing is decided that could not be recorded.
            log.warning("calls in flight could not be looked after", exc_info=True)
            with suppress(Exception):
                connection.close()

    def _write_the_unwritten(self) -> None:
        """One that is refused where others are not is left to its lease, whose end gives it a row that says lost."""
        while self._unwritten:
            first = self._unwritten[0]
            try:
                result_writer.again([first])
            except AWAY:
                raise
            except Exception:
                result_writer.try_out()
                log.exception("a call's row is refused as it is", extra={"call_id": str(first.ticket.call_id)})
            self.flights.end(first.ticket.call_id)
            self._unwritten.pop(0)


desk = Desk()
os.register_at_fork(after_in_child=desk.restart)
