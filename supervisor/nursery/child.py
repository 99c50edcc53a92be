"""One running agent as the runner sees it."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

from supervisor.nursery.ends import Ends
from supervisor.nursery.facts import Ending, Usage
from supervisor.nursery.pipes import Reader, Writer

#: Seconds for the last output after everything of the run has ended; only a stranger can hold a pipe open longer.
LAST_WORDS = 1.0

OnOutput = Callable[[str, bytes], None]
OnUsage = Callable[[Usage], None]


class Child:
    def __init__(self, pid: int, ends: Ends, *, on_output: OnOutput, on_usage: OnUsage) -> None:
        self.pid = pid
        self._control = ends.control
        self._writer = Writer(ends.stdin)
        self._readers = [Reader(ends.out, partial(on_output, "out")), Reader(ends.err, partial(on_output, "err"))]
        self._on_usage = on_usage
        self._last = Usage(processes=0, memory=0, cpu=0.0, read=0, written=0)
        self._peak = 0
        self.following = asyncio.create_task(self._follow(), name=f"agent {pid}")

    async def write(self, data: bytes) -> None:
        """Returns when all of it is with the agent, or the agent reads no more."""
        await self._writer.write(data)

    async def close_stdin(self) -> None:
        await self._writer.finish()

    def end(self, grace: float) -> None:
        """Ask everything of the run to end, and kill what has not after `grace` seconds."""
        self._control.tell({"grace": grace})

    def kill(self) -> None:
        self._control.hang_up()

    async def ended(self) -> Ending:
        """Once nothing of the run is left and all its output has been handed over."""
        return await asyncio.shield(self.following)

    async def _follow(self) -> Ending:
        ending = None
        try:
            while ending is None and (word := await self._control.hear()) is not None:
                ending = self._take(word)
            drained = [asyncio.create_task(reader.drained.wait()) for reader in self._readers]
            await asyncio.wait(drained, timeout=LAST_WORDS)
            for task in drained:
                task.cancel()
        finally:
            self._close()
        return ending or self._lost()

    def _take(self, word: dict[str, Any]) -> Ending | None:
        if "gone" in word:
            return Ending(**word["gone"], lost=False)
        self._last = Usage(**word["usage"])
        self._peak = max(self._peak, self._last.memory)
        # By the loop: what goes wrong there is logged, and ends nothing here.
        asyncio.get_running_loop().call_soon(self._on_usage, self._last)
        return None

    def _lost(self) -> Ending:
        last = self._last
        return Ending(
            exit_code=None,
            signal=None,
            cpu=last.cpu,
            peak_memory=self._peak,
            read=last.read,
            written=last.written,
            exceeded="",
            used=0,
            leftovers=0,
            lost=True,
        )

    def _close(self) -> None:
        self._control.close()
        self._writer.close()
        for reader in self._readers:
            reader.close()
