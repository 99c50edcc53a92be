"""The nursery program from outside: it is started, given what a new keeper needs, and buried."""

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Collection, Sequence
from pathlib import Path

PROGRAM = Path(__file__).with_name("program.py")
#: Seconds that it has to end by itself, which takes it no more than killing all it has.
PATIENCE = 5.0


class Doorway:
    def __init__(self, processors: Collection[int]) -> None:
        """Raises OSError when there is no room for it."""
        self._loop = asyncio.get_running_loop()
        self._door, inside = socket.socketpair()
        try:
            self._process = self._start(inside.fileno(), processors)
            self._end = os.pidfd_open(self._process.pid)
        except OSError:
            self._door.close()  # and it ends, if it was started
            raise
        finally:
            inside.close()
        self._door.setblocking(False)
        self._turn = asyncio.Lock()
        self.over = asyncio.Event()
        self._loop.add_reader(self._end, self._bury)

    def _start(self, inside: int, processors: Collection[int]) -> "subprocess.Popen[bytes]":
        # Its environment can be read by whatever runs under the same account: there is nothing in it.
        return subprocess.Popen(  # noqa: S603 - this Python with a file beside this one
            [sys.executable, "-I", "-S", str(PROGRAM), str(inside), *map(str, processors)],
            env={},
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            pass_fds=[inside],
            start_new_session=True,
        )

    async def hand(self, descriptors: Sequence[int]) -> None:
        """Raises OSError; then nothing has come of it."""
        async with self._turn:
            while not self._handed(descriptors):
                writable = asyncio.Event()
                self._loop.add_writer(self._door, writable.set)
                try:
                    await writable.wait()
                finally:
                    self._loop.remove_writer(self._door)

    def _handed(self, descriptors: Sequence[int]) -> bool:
        try:
            socket.send_fds(self._door, [b"+"], descriptors)
        except BlockingIOError:
            return False
        return True

    def _bury(self) -> None:
        self._loop.remove_reader(self._end)
        os.close(self._end)
        self._door.close()
        self._process.wait()
        self.over.set()

    async def close(self) -> None:
        """Nothing that it ever started is left when this returns."""
        if self.over.is_set():
            return
        self._door.close()
        try:
            await asyncio.wait_for(self.over.wait(), PATIENCE)
        except TimeoutError:
            self._process.kill()
            await self.over.wait()
