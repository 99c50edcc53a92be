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
SHARED_READS, ONLY_READS = 1, 16
#: While several callers send, a round takes so long: steps of requests that were begun come between the reads. So one
#: caller begins at most 500 requests a second in one process, which is near what a process serves at all.
ROUND_SECONDS = 0.002
#: How long a caller counts as one who sends.
SENDS_SECONDS = 0.5
#: Of all callers in one round, and callers in a round: tokens can be had in any number.
READS = 64
NEVER = float("-inf")
#: Chunks of one connection that wait, of up to 256 KB each; past this the connection is not read on.
MAX_HELD = 1
#: The token alone: who writes the scheme in another way is no other caller.
AUTHORIZATION = re.compile(rb"\r\nauthorization:[ \t]*(?:[a-z]+[ \t]+)?([^ \t\r\n]{1,4096})", re.IGNORECASE)
#: The header stands in the first bytes of a request; a body is not searched for it.
SEARCHED = 16 * 1024


class Turns:
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
        if reads >= self._limit(caller) or len(self._reads) >= READS:
            return False
        self._note(caller, reads)
        return True

    def hold(self, caller: bytes, connection: "FairHttpProtocol", data: bytes) -> None:
        line = self._lines.get(caller)
        if line is None:
            line = self._lines[caller] = deque()
        line.append((connection, data))

    def _limit(self, caller: bytes) -> int:
        """How many reads this caller has in a round."""
        return SHARED_READS if caller != self._last or self._is_shared(self._loop.time()) else ONLY_READS

    def _is_shared(self, now: float) -> bool:
        return now - self._other_read < SENDS_SECONDS

    def _note(self, caller: bytes, reads: int) -> None:
        now = self._loop.time()
        if caller != self._last:
            self._last, self._other_read = caller, self._last_read
        self._last_read = now
        if not self._reads:
            if self._lines and self._is_shared(now):
                self._loop.call_later(ROUND_SECONDS, self._next_round)
            else:
                self._loop.call_soon(self._next_round)
        self._reads[caller] = reads + 1

    def _next_round(self) -> None:
        self._reads.clear()
        left = READS
        for caller in list(self._lines):
            if left <= 0:
                break
            line = self._lines[caller]
            count = min(len(line), self._limit(caller), left)
            left -= count
            for reads in range(count):
                self._note(caller, reads)
                connection, data = line.popleft()
                connection.read_held(data)
            if line:
                self._lines.move_to_end(caller)
            else:
                del self._lines[caller]


class _OfLoops(threading.local):
    turns: Turns | None = None
    loop: asyncio.AbstractEventLoop | None = None


_of_loops = _OfLoops()


def turns_of(loop: asyncio.AbstractEventLoop) -> Turns:
    if _of_loops.turns is None or _of_loops.loop is not loop:
        _of_loops.loop, _of_loops.turns = loop, Turns(loop)
    return _of_loops.turns


class FairHttpProtocol(HttpToolsProtocol):
    """Uvicorn's protocol, fed in turns. Bytes of one connection are never fed out of their order."""

    _turns: Turns
    _caller = b""
    _held = 0
    _paused = False

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._turns = turns_of(self.loop)
        self._caller = repr(self.client[0] if self.client else "").encode()

    def data_received(self, data: bytes) -> None:
        if self._held == 0:
            found = AUTHORIZATION.search(data, 0, SEARCHED)
            if found is not None:
                self._caller = found[1]
            if self._turns.may_read(self._caller):
                super().data_received(data)
                return
        # A request has begun to arrive: the connection is not idle, however long its turn takes.
        self._unset_keepalive_if_required()
        self._held += 1
        self._turns.hold(self._caller, self, data)
        if self._held >= MAX_HELD and self.flow is not None:
            self._paused = True
            self.flow.pause_reading()

    def read_held(self, data: bytes) -> None:
        self._held -= 1
        if self.parser is None or self.transport.is_closing():
            return
        if self._held == 0 and self._paused and self.flow is not None:
            self._paused = False
            self.flow.resume_reading()
        super().data_received(data)
