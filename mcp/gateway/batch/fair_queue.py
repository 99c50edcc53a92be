"""A queue that gives every caller a share, and the keys that callers share by."""

import queue
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar
from uuid import UUID

from nhi.credentials import tokens
from nhi.credentials.tokens import ParsedCredentialToken

T = TypeVar("T")


@dataclass(frozen=True)
class QueueLimits:
    """How many items a fair queue accepts, and how many of them a batch takes."""

    #: Maximum number of waiting items of all callers.
    total: int
    #: Maximum number of waiting items of one caller.
    per_caller: int
    #: Maximum number of items in a batch.
    batch: int
    #: Maximum number of items of one caller in a batch while several callers put items. It bounds the wait of an item
    #: that arrives just after a batch was taken.
    per_caller_in_batch: int
    #: How long after its last item a caller still counts as active, in seconds.
    contention_seconds: float


@dataclass
class QueueBatch(Generic[T]):
    """The items that were taken from the queue together. It is empty if none arrived in time."""

    items: list[T] = field(default_factory=list)
    #: The queue was closed: the thread that took this batch ends once the queue is empty.
    closed: bool = False


class FairQueue(Generic[T]):
    """A queue that serves its callers in turn. Any thread may put items; one takes, or two during a handover."""

    def __init__(self, limits: QueueLimits) -> None:
        self._limits = limits
        #: SimpleQueue is implemented in C and the fastest way to wake a waiting thread.
        self._arrivals: queue.SimpleQueue[tuple[Hashable, T] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        #: Items without a caller. They are served before all others.
        self._priority_items: deque[T] = deque()
        #: Waiting items by caller, in the order in which the callers are served.
        self._queues: OrderedDict[Hashable, deque[T]] = OrderedDict()
        self._waiting: dict[Hashable, int] = {}
        self._total = 0
        #: The caller of the latest item, and the times of the latest item and of the latest item of another caller.
        self._last: Hashable = None
        self._last_put = self._other_put = float("-inf")

    def has_capacity(self, caller: Hashable) -> bool:
        return self._waiting.get(caller, 0) < self._limits.per_caller and self._total < self._limits.total

    def is_full(self) -> bool:
        return self._total >= self._limits.total

    def put(self, caller: Hashable, item: T) -> bool:
        """Put an item. Return False when the caller's share or the whole queue is full."""
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
        """Put an item without a caller. It is never refused and is served first."""
        self._arrivals.put((None, item))

    def close(self) -> None:
        """Signal the taking thread to end."""
        self._arrivals.put(None)

    def is_empty(self) -> bool:
        with self._lock:
            return not self._priority_items and not self._queues and self._arrivals.empty()

    def take_batch(self, timeout: float) -> QueueBatch[T]:
        """Take a batch of the items that have arrived. When there are none, wait up to `timeout` seconds."""
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
        """Add one item of each caller in turn, up to the limit of a caller in a batch."""
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
        waiting_items = self._queues[caller]
        items.append(waiting_items.popleft())
        self._total -= 1
        if waiting_items:
            self._queues.move_to_end(caller)
        else:
            del self._queues[caller]
        remaining = self._waiting[caller] - 1
        if remaining:
            self._waiting[caller] = remaining
        else:
            del self._waiting[caller]


#: Number of credentials that are remembered. The oldest are removed first.
MAX_KNOWN_CREDENTIALS = 20_000


class CallerKeys:
    """Maps the token of a request to the key of its caller in the queue, without a query.

    Requests with a credential that this process has not accepted yet share the key of their source address.
    """

    def __init__(self) -> None:
        self._identities: dict[bytes, UUID] = {}

    def key(self, token: tokens.ParsedBearerToken, source: str) -> Hashable:
        if not isinstance(token, ParsedCredentialToken):
            return token.identity_id
        identity_id = self._identities.get(token.digest)
        return ("unknown", source) if identity_id is None else identity_id

    def remember(self, token: tokens.ParsedBearerToken, identity_id: UUID) -> None:
        """Remember that this credential was accepted for this identity."""
        if not isinstance(token, ParsedCredentialToken) or token.digest in self._identities:
            return
        while len(self._identities) >= MAX_KNOWN_CREDENTIALS:
            self._identities.pop(next(iter(self._identities)), None)
        self._identities[token.digest] = identity_id


caller_keys = CallerKeys()
