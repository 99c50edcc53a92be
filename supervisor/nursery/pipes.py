"""The runner's ends of an agent's pipes. Nothing here waits for one agent at the expense of another."""

import asyncio
import os
from collections.abc import Callable

#: As much as is read at one go, which is as much as a pipe holds: then the others have their turn.
MOST_AT_ONCE = 65536


class Reader:
    """Hands on what an agent writes, as it comes; keeps none of it."""

    def __init__(self, pipe: int, take: Callable[[bytes], None]) -> None:
        self._pipe = pipe
        self._take = take
        self._loop = asyncio.get_running_loop()
        self.drained = asyncio.Event()
        os.set_blocking(pipe, False)
        self._loop.add_reader(pipe, self._read)

    def _read(self) -> None:
        try:
            data = os.read(self._pipe, MOST_AT_ONCE)
        except BlockingIOError:
            return
        if data:
            self._take(data)
        else:
            self.close()

    def close(self) -> None:
        if not self.drained.is_set():
            self.drained.set()
            self._loop.remove_reader(self._pipe)
            os.close(self._pipe)


class Writer:
    """Writes to an agent's standard input as fast as it reads; what it no longer reads is dropped without a word."""

    def __init__(self, pipe: int) -> None:
        self._pipe = pipe
        self._loop = asyncio.get_running_loop()
        self._turn = asyncio.Lock()
        self._stir = asyncio.Event()
        self._closed = False
        os.set_blocking(pipe, False)

    async def write(self, data: bytes) -> None:
        async with self._turn:
            rest = memoryview(data)
            while rest and not self._closed:
                rest = rest[self._push(rest) :]
                if rest and not self._closed:
                    await self._writable()

    def _push(self, data: memoryview) -> int:
        try:
            return os.write(self._pipe, data[:MOST_AT_ONCE])
        except BlockingIOError:
            return 0
        except BrokenPipeError:
            self.close()
            return 0

    async def _writable(self) -> None:
        self._stir.clear()
        self._loop.add_writer(self._pipe, self._stir.set)
        try:
            await self._stir.wait()
        finally:
            if not self._closed:
                self._loop.remove_writer(self._pipe)

    async def finish(self) -> None:
        """Close it once everything before has been written."""
        async with self._turn:
            self.close()

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._loop.remove_writer(self._pipe)
            os.close(self._pipe)
            self._stir.set()
