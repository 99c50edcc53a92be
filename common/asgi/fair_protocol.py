"""HTTP connections of one process read in turns: nobody's thousand requests are begun before another's one.

Uvicorn begins a request as soon as its bytes are there. When one caller sends thousands at once, all of them are begun
in one round of the event loop, and every other caller waits for that. Here, while several callers send, each of them
has `SHARED_READS` reads in a round; the rest of its bytes wait for the next rounds. A caller is identified by its
`Authorization` header, and a connection without one by the address of its peer.

The figures are measured, with `python -m benchmarks.fairness`.
"""

import asyncio
import re
import threading
from collections import OrderedDict, deque
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

#: Reads of one caller in a round while several callers send, and of the only caller otherwise.
SHARED_READS, SOLE_CALLER_READS = 1, 16
#: While several callers send, a round takes so long: steps of requests that were begun come between the reads. So one
#: caller begins at most 500 requests a second in one process, which is near what a process serves at all.
ROUND_SECONDS = 0.002
#: How long a caller counts as one who sends.
CALLER_ACTIVE_SECONDS = 0.5
#: Of all callers in one round, and callers in a round: tokens can be had in any number.
MAX_READS_PER_ROUND = 64
NEVER = float("-inf")
#: Chunks of one connection that wait, of up to 256 KB each; past this the connection is not read on.
MAX_QUEUED_CHUNKS = 1
#: The token alone: who writes the scheme in another way is no other caller.
AUTHORIZATION = re.compile(rb"\r\nauthorization:[ \t]*(?:[a-z]+[ \t]+)?([^ \t\r\n]{1,4096})", re.IGNORECASE)
#: The header stands in the first bytes of a request; a body is not searched for it.
MAX_SEARCHED_BYTES = 16 * 1024


class FairReadScheduler:
    """Of one event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._lines: OrderedDict[bytes, deque[tuple[FairHttpProtocol, bytes]]] = OrderedDict()
        #: Reads of this round, by caller.
        self._reads: dict[bytes, int] = {}
        #: Who was read last, when another was read before, and when this one was.
        self._last, self._other_read, self._last_read = b"", NEVER, NEVER

    def may_read(self, caller: bytes) -> bool:
        """Whether this caller may read at once: nothing of its own waits, and it has had few reads in this round."""
        if caller in self._lines:
            return False
        reads = self._reads.get(caller, 0)
        if reads >= self._reads_per_round(caller) or len(self._reads) >= MAX_READS_PER_ROUND:
            return False
        self._count_read(caller, reads)
        return True

    def queue_read(self, caller: bytes, connection: "FairHttpProtocol", data: bytes) -> None:
        line = self._lines.get(caller)
        if line is None:
            line = self._lines[caller] = deque()
        line.append((connection, data))

    def _reads_per_round(self, caller: bytes) -> int:
        """How many reads this caller has in a round."""
        return SHARED_READS if caller != self._last or self._is_shared(self._loop.time()) else SOLE_CALLER_READS

    def _is_shared(self, now: float) -> bool:
        return now - self._other_read < CALLER_ACTIVE_SECONDS

    def _count_read(self, caller: bytes, reads: int) -> None:
        now = self._loop.time()
        if caller != self._last:
            self._last, self._other_read = caller, self._last_read
        self._last_read = now
        if not self._reads:
            if self._lines and self._is_shared(now):
                self._loop.call_later(ROUND_SECONDS, self._start_next_round)
            else:
                self._loop.call_soon(self._start_next_round)
        self._reads[caller] = reads + 1

    def _start_next_round(self) -> None:
        self._reads.clear()
        left = MAX_READS_PER_ROUND
        for caller in list(self._lines):
            if left <= 0:
                break
            line = self._lines[caller]
            count = min(len(line), self._reads_per_round(caller), left)
            left -= count
            for reads in range(count):
                self._count_read(caller, reads)
                connection, data = line.popleft()
                connection.process_queued_chunk(data)
            if line:
                self._lines.move_to_end(caller)
            else:
                del self._lines[caller]


class _ThreadState(threading.local):
    scheduler: FairReadScheduler | None = None
    loop: asyncio.AbstractEventLoop | None = None


_thread_state = _ThreadState()


def scheduler_for_loop(loop: asyncio.AbstractEventLoop) -> FairReadScheduler:
    if _thread_state.scheduler is None or _thread_state.loop is not loop:
        _thread_state.loop, _thread_state.scheduler = loop, FairReadScheduler(loop)
    return _thread_state.scheduler


class FairHttpProtocol(HttpToolsProtocol):
    """Uvicorn's protocol, fed in turns. Bytes of one connection are never fed out of their order."""

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
            found = AUTHORIZATION.search(data, 0, MAX_SEARCHED_BYTES)
            if found is not None:
                self._caller = found[1]
            if self._scheduler.may_read(self._caller):
                super().data_received(data)
                return
        # A request has begun to arrive: the connection is not idle, however long its turn takes.
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
