"""Uvicorn protocol that reads connections of different callers in turn.

Uvicorn starts a request as soon as its bytes arrive. When one caller sends thousands of requests at once, all of them
start in one iteration of the event loop, and every other caller waits. Here, while several callers send, each caller
has `SHARED_READS` reads per round; its other bytes wait for the next rounds. A caller is identified by its
`Authorization` header, or by the peer's address if the request has no such header.

The constants are measured with `python -m benchmarks.fairness`.
"""

import asyncio
import re
import threading
from collections import OrderedDict, deque
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

#: Reads per round for each caller while several callers send, and for a caller that sends alone.
SHARED_READS, SOLE_CALLER_READS = 1, 16
#: Length of a round while several callers send. Running requests make progress between the reads. One caller can start
#: at most 500 requests a second in one process, which is near the capacity of a process.
ROUND_SECONDS = 0.002
#: How long a caller counts as active after a read.
CALLER_ACTIVE_SECONDS = 0.5
#: Limits the reads of all callers per round, and so the callers per round: a client can use any number of tokens.
MAX_READS_PER_ROUND = 64
NEVER = float("-inf")
#: Queued chunks of one connection, of up to 256 KB each. At this number the connection stops reading.
MAX_QUEUED_CHUNKS = 1
#: Captures the token without the scheme: the spelling of the scheme does not make another caller.
AUTHORIZATION = re.compile(rb"\r\nauthorization:[ \t]*(?:[a-z]+[ \t]+)?([^ \t\r\n]{1,4096})", re.IGNORECASE)
#: Only the first bytes of a request are searched for the header, not its body.
MAX_SEARCHED_BYTES = 16 * 1024


class FairReadScheduler:
    """Shares the reads of one event loop among callers: each has a limited number of reads per round."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._queues: OrderedDict[bytes, deque[tuple[FairHttpProtocol, bytes]]] = OrderedDict()
        #: Number of reads in this round, by caller.
        self._reads: dict[bytes, int] = {}
        #: The caller that was read last, the last read of any other caller, and the last read of all.
        self._last_caller, self._last_read_of_others, self._last_read = b"", NEVER, NEVER

    def may_read(self, caller: bytes) -> bool:
        """Whether this caller may read now: it has no queued chunks and has reads left in this round."""
        if caller in self._queues:
            return False
        reads = self._reads.get(caller, 0)
        if reads >= self._reads_per_round(caller) or len(self._reads) >= MAX_READS_PER_ROUND:
            return False
        self._count_read(caller, reads)
        return True

    def queue_read(self, caller: bytes, connection: "FairHttpProtocol", data: bytes) -> None:
        queue = self._queues.get(caller)
        if queue is None:
            queue = self._queues[caller] = deque()
        queue.append((connection, data))

    def _reads_per_round(self, caller: bytes) -> int:
        return SHARED_READS if caller != self._last_caller or self._is_shared(self._loop.time()) else SOLE_CALLER_READS

    def _is_shared(self, now: float) -> bool:
        return now - self._last_read_of_others < CALLER_ACTIVE_SECONDS

    def _count_read(self, caller: bytes, reads: int) -> None:
        now = self._loop.time()
        if caller != self._last_caller:
            self._last_caller, self._last_read_of_others = caller, self._last_read
        self._last_read = now
        if not self._reads:
            if self._queues and self._is_shared(now):
                self._loop.call_later(ROUND_SECONDS, self._start_next_round)
            else:
                self._loop.call_soon(self._start_next_round)
        self._reads[caller] = reads + 1

    def _start_next_round(self) -> None:
        self._reads.clear()
        remaining_reads = MAX_READS_PER_ROUND
        for caller in list(self._queues):
            if remaining_reads <= 0:
                break
            queue = self._queues[caller]
            count = min(len(queue), self._reads_per_round(caller), remaining_reads)
            remaining_reads -= count
            for reads in range(count):
                self._count_read(caller, reads)
                connection, data = queue.popleft()
                connection.process_queued_chunk(data)
            if queue:
                self._queues.move_to_end(caller)
            else:
                del self._queues[caller]


class _ThreadState(threading.local):
    """The scheduler of this thread, and the event loop that it belongs to."""

    scheduler: FairReadScheduler | None = None
    loop: asyncio.AbstractEventLoop | None = None


_thread_state = _ThreadState()


def scheduler_for_loop(loop: asyncio.AbstractEventLoop) -> FairReadScheduler:
    if _thread_state.scheduler is None or _thread_state.loop is not loop:
        _thread_state.loop, _thread_state.scheduler = loop, FairReadScheduler(loop)
    return _thread_state.scheduler


class FairHttpProtocol(HttpToolsProtocol):
    """Uvicorn's protocol with reads scheduled by `FairReadScheduler`. The bytes of a connection stay in order."""

    _scheduler: FairReadScheduler
    _caller = b""
    _queued_chunks = 0
    _is_paused = False

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._scheduler = scheduler_for_loop(self.loop)
        self._caller = repr(self.client[0] if self.client else "").encode()

    def data_received(self, data: bytes) -> None:
        if self._queued_chunks == 0:
            match = AUTHORIZATION.search(data, 0, MAX_SEARCHED_BYTES)
            if match is not None:
                self._caller = match[1]
            if self._scheduler.may_read(self._caller):
                super().data_received(data)
                return
        # A request has started to arrive: the connection is not idle, however long the request is queued.
        self._unset_keepalive_if_required()
        self._queued_chunks += 1
        self._scheduler.queue_read(self._caller, self, data)
        if self._queued_chunks >= MAX_QUEUED_CHUNKS and self.flow is not None:
            self._is_paused = True
            self.flow.pause_reading()

    def process_queued_chunk(self, data: bytes) -> None:
        self._queued_chunks -= 1
        if self.parser is None or self.transport.is_closing():
            return
        if self._queued_chunks == 0 and self._is_paused and self.flow is not None:
            self._is_paused = False
            self.flow.resume_reading()
        super().data_received(data)
