"""The breaker of a remote agent's place: who failed there again and again is left alone for a while, by every task."""

from types import TracebackType

from a2a.remote.troubles import Code, Trouble
from a2a.wire.faults import Kind
from common.executors import run_in_thread
from mcp.limits import breakers
from mcp.limits.breakers import BreakerOpen, GuardedCall

THRESHOLD, RECOVERY_SECONDS = 5, 30
#: Faults of the place, and not of what it was sent.
FAULTS = frozenset({Code.UNREACHABLE, Code.TIMEOUT, Code.ERROR, Code.INVALID_ANSWER, Code.TOO_LARGE})


class Guard:
    """Around handing a message over."""

    def __init__(self, place: str) -> None:
        self._name = f"a2a {place}"
        self._passage: GuardedCall | None = None

    async def __aenter__(self) -> "Guard":
        try:
            self._passage = await run_in_thread(
                lambda: breakers.admit_call(self._name, threshold=THRESHOLD, recovery_timeout=RECOVERY_SECONDS)
            )
        except BreakerOpen as open_one:
            wait = float(open_one.details["retry_after"])
            raise Trouble(Code.UNREACHABLE, open_one.message, passing=True, retry_after=wait) from None
        return self

    async def went_well(self) -> None:
        """It answered; how long it goes on is of no interest here."""
        passage, self._passage = self._passage, None
        if passage is not None:
            await run_in_thread(passage.succeed)

    async def __aexit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        passage, self._passage = self._passage, None
        if passage is None:
            return
        if isinstance(error, Trouble):
            found = error
            faulty = found.code in FAULTS and found.kind != Kind.LIMITED
            await run_in_thread(lambda: passage.fail(found.code) if faulty else passage.succeed())
        else:
            await run_in_thread(passage.abandon)
