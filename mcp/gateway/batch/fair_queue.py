"""A queue that its callers share fairly: each has a share of the places, and they are served in turn.

One caller that brings thousands of items fills its own share and waits behind its own items. Another caller's item is
in the next batch.
"""

import queue
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class QueueLimits:
    #: Items of all callers that may wait.
    total: int
    #: Items of one caller that may wait.
    per_caller: int
    #: Items of one batch.
    batch: int
    #: Items of one caller in a batch while others bring items too: what another caller waits for whose item comes when
    #: the batch has just begun.
    per_caller_in_batch: int
    #: How long a caller counts as one who brings items, in seconds.
    contention_seconds: float


@dataclass
class QueueBatch(Generic[T]):
    items: list[T] = field(default_factory=list)
    #: The queue was closed: the thread that took this batch ends once nothing waits.
    closed: bool = False


class FairQueue(Generic[T]):
    """Any thread puts. Taking is for one thread, and safe for a second one that begins while the first one ends."""

    def __init__(self, limits: QueueLimits) -> None:
        self._limits = limits
        #: A queue of the interpreter's own, by which a waiting thread is woken: the fastest there is.
        self._arrivals: queue.SimpleQueue[tuple[Hashable, T] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        #: Items without a caller, which are served before all others.
        self._priority_items: deque[T] = deque()
        #: The callers whose items wait, in the order of their turns.
        self._queues: OrderedDict[Hashable, deque[T]] = OrderedDict()
        self._waiting: dict[Hashable, int] = {}
        self._total = 0
        #: The caller whose item came last, and when the last item of another caller came.
        self._last: Hashable = None
        self._last_put = self._other_put = float("-inf")

    def has_capacity(self, caller: Hashable) -> bool:
        return self._waiting.get(caller, 0) < self._limits.per_caller and self._total < self._limits.total

    def is_full(self) -> bool:
        return self._total >= self._limits.total

    def put(self, caller: Hashable, item: T) -> bool:
        """False when the caller's share is used up, or all places are."""
        with self._lock:
            if not self.has_capacity(caller):
                return False
            self._waiting[caller] = self._waiting.get(caller, 0) + 1
            self._total += 1
            now = time.monotonic()
            if caller != self._last:
                self._last, self._other_put = caller, self._last_put
            self._last_put = now
        self._arrivals.put((caller, item))
        return True

    def put_first(self, item: T) -> None:
        """Never refused, and served before the items of any caller."""
        self._arrivals.put((None, item))

    def close(self) -> None:
        """Let one taking thread end."""
        self._arrivals.put(None)

    def is_empty(self) -> bool:
        with self._lock:
            return not self._priority_items and not self._queues and self._arrivals.empty()

    def take_batch(self, timeout: float) -> QueueBatch[T]:
        """What has come by now, in turns; waits so long where nothing has."""
        batch: QueueBatch[T] = QueueBatch()
        with self._lock:
            wait = not self._priority_items and not self._queues
        try:
            arrival = self._arrivals.get(timeout=timeout) if wait else self._arrivals.get_nowait()
            with self._lock:
                while True:
                    self._enqueue_arrival(arrival, batch)
                    arrival = self._arrivals.get_nowait()
        except queue.Empty:
            pass
        with self._lock:
            self._fill_batch(batch.items)
        return batch

    def _enqueue_arrival(self, arrival: tuple[Hashable, T] | None, batch: QueueBatch[T]) -> None:
        if arrival is None:
            batch.closed = True
            return
        caller, item = arrival
        if caller is None:
            self._priority_items.append(item)
        else:
            self._queues.setdefault(caller, deque()).append(item)

    def _fill_batch(self, items: list[T]) -> None:
        """Everybody in turn gets one place after the other, up to a caller's most in a batch."""
        while self._priority_items and len(items) < self._limits.batch:
            items.append(self._priority_items.popleft())
        contended = time.monotonic() - self._other_put < self._limits.contention_seconds
        for _ in range(self._limits.per_caller_in_batch if contended else self._limits.batch):
            if not self._queues:
                return
            for caller in list(self._queues):
                if len(items) >= self._limits.batch:
                    return
                self._serve_caller(caller, items)

    def _serve_caller(self, caller: Hashable, items: list[T]) -> None:
        own = self._queues[caller]
        items.append(own.popleft())
        self._total -= 1
        if own:
            self._queues.move_to_end(caller)
        else:
            del self._queues[caller]
        left = self._waiting[caller] - 1
        if left:
            self._waiting[caller] = left
        else:
            del self._waiting[caller]
