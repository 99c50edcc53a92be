"""The runner's end of a control socket: what a keeper says, and what it is told."""

import asyncio
import socket
from collections import deque
from contextlib import suppress

from supervisor.nursery import wire
from supervisor.nursery.wire import Word


class Control:
    """Closing it, on purpose or by dying, kills the run."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self._lines = wire.Lines()
        self._heard: deque[Word] = deque()

    async def hear(self) -> Word | None:
        """The next word; None when none will come."""
        while not self._heard:
            try:
                data = await asyncio.get_running_loop().sock_recv(self._end, 65536)
            except ConnectionError:
                return None
            if not data:
                return None
            self._heard += self._lines.feed(data)
        return self._heard.popleft()

    async def say(self, word: Word) -> None:
        with suppress(ConnectionError):  # that nobody hears it shows in that no answer comes
            await asyncio.get_running_loop().sock_sendall(self._end, wire.line(**word))

    def tell(self, word: Word) -> None:
        """Without waiting: the few words that a running keeper is told always fit."""
        with suppress(OSError):
            self._end.send(wire.line(**word))

    def hang_up(self) -> None:
        """The keeper kills all it has, and can still say what that was."""
        with suppress(OSError):
            self._end.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self._end.close()
