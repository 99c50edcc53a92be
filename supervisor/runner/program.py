"""One try of an agent's program in task mode: from its start until nothing of it is left."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime

from supervisor import account, categories
from supervisor.cancelling import GRACE
from supervisor.choices import ErrorCategory, ExecutionState
from supervisor.nursery import Child, Command, Ending, NotStarted, Nursery
from supervisor.runner import answers
from supervisor.runner.bookkeeping import Flag
from supervisor.runner.capture import Capture
from supervisor.runner.sentences import ended_by, too_much
from supervisor.runner.usage import Meter
from supervisor.runner.words import Ended, Order

S, C = ExecutionState, ErrorCategory
ASKED = "It asks its caller for more."
NOBODY_ANSWERS = f"It asked something (exit code {categories.ASKS}), and nobody can answer: this run is for no task."
NO_QUESTION = f"Exit code {categories.ASKS} says that it asks its caller for more, and it asked nothing."


class Program:
    def __init__(
        self,
        nursery: Nursery,
        order: Order,
        *,
        pattern: str,
        timeout: float,
        capture: Capture,
        may_ask: bool | None = None,
    ) -> None:
        self._nursery = nursery
        self._order = order
        self._pattern = pattern
        self._timeout = timeout
        self._capture = capture
        #: Whether somebody is there who could answer a question; None where an exit code asks none.
        self._may_ask = may_ask
        self._child: Child | None = None
        self._flag: Flag | None = None
        self._doomed = False
        self.meter = Meter()

    async def run(self, started: Callable[[int], Awaitable[None]]) -> Ended:
        try:
            self._child = child = await self._nursery.spawn(
                command(self._order), on_output=self._hear, on_usage=self.meter.take
            )
        except NotStarted as problem:
            return Ended(S.FAILED, str(problem), categories.of_start(problem.errno))
        try:
            ending, late = await self._through(child, started)
        except BaseException:
            # Its row is not ours any more, or the worker ends: it must not go on unseen.
            child.kill()
            await child.ended()
            raise
        self.meter.end(ending)
        await self._take_last()
        ended = await asyncio.to_thread(self._read, ending, late=late)
        return replace(ended, context={**ended.context, **_asked_to_end(ending)})

    async def _through(self, child: Child, started: Callable[[int], Awaitable[None]]) -> tuple[Ending, bool]:
        """From its first moment to its last, and whether that was late."""
        begun = time.monotonic()
        attending = asyncio.create_task(self._attend(child))
        # On record before anything of it is: who sees it end has seen it run.
        await started(child.pid)
        self._pass_on(child)
        late = not await _within(child, self._timeout - (time.monotonic() - begun))
        if late and self._flag is None:
            await self._overrun(child)
        ending = await child.ended()
        attending.cancel()
        with suppress(asyncio.CancelledError):
            await attending
        return ending, late

    def _hear(self, name: str, data: bytes) -> None:
        self._capture.take(name, data)

    async def _attend(self, child: Child) -> None:
        """All of its input and then its end: a program in task mode is never waited for by a prompt."""
        if self._order.input:
            await child.write(self._order.input)
        await child.close_stdin()

    async def _overrun(self, child: Child) -> None:
        child.end(GRACE)

    async def _take_last(self) -> None:
        await asyncio.to_thread(self._capture.digest, last=True)

    def stop(self, flag: Flag) -> None:
        # The last that came names who asked first, and has the least grace.
        self._flag = flag
        if self._child is not None:
            self._child.end(flag.grace)

    def kill(self) -> None:
        self._doomed = True
        if self._child is not None:
            self._child.kill()

    def _pass_on(self, child: Child) -> None:
        """What was asked for before there was anything to end."""
        if self._doomed:
            child.kill()
        elif self._flag is not None:
            child.end(self._flag.grace)

    def _read(self, ending: Ending, *, late: bool) -> Ended:
        if self._flag is not None:
            return Ended(S.CANCELLED, f"{self._flag.who}: {self._flag.reason}", exit_code=ending.exit_code)
        if late:
            return Ended(S.TIMEOUT, self._too_long, C.AGENT_ERROR, ending.exit_code)
        asks = ending.exit_code == categories.ASKS and not (ending.exceeded or ending.lost)
        if asks and self._may_ask:
            return self._asks(ending)
        said = NOBODY_ANSWERS if asks and self._may_ask is False else ""
        return gone_wrong(ending, self._order, self._capture, said=said) or self._answered(ending)

    @property
    def _too_long(self) -> str:
        return f"It did not end within {self._timeout:g} s."

    def _answered(self, ending: Ending) -> Ended:
        try:
            answer = answers.of(self._order, self._pattern, bytes(self._capture.answer))
        except answers.NoAnswer as problem:
            return Ended(S.FAILED, self._capture.redacted(str(problem)), C.AGENT_ERROR, ending.exit_code)
        return Ended(
            S.COMPLETED, exit_code=ending.exit_code, answer=answer.text, answer_bytes=answer.size, answer_cut=answer.cut
        )

    def _asks(self, ending: Ending) -> Ended:
        asked = self._answered(ending)
        said = self._capture.text("out") if asked.answer is None else asked.answer
        if asked.state == S.COMPLETED and not said.strip():
            return Ended(S.FAILED, NO_QUESTION, C.AGENT_ERROR, ending.exit_code)
        return replace(asked, message=ASKED) if asked.state == S.COMPLETED else asked


def gone_wrong(ending: Ending, order: Order, capture: Capture, *, said: str = "") -> Ended | None:
    """What an end by itself says of a run that nobody stopped; None for a good one. `said` tells its exit code."""
    if ending.exceeded:
        return Ended(S.FAILED, too_much(ending, order.limits), C.AGENT_ERROR)
    if ending.lost:
        return Ended(S.FAILED, "The process that kept it was killed, and what it ran with it.", C.SYSTEM_ERROR)
    if ending.exit_code == 0:
        return None
    errors = capture.text("err")
    category = categories.of_exit(ending.exit_code, errors)
    if not said:
        said = f"Exit code {ending.exit_code}." if ending.signal is None else ended_by(ending.signal)
    last = next((line.strip() for line in reversed(errors.splitlines()) if line.strip()), "")
    return Ended(S.FAILED, f"{said} {last}".strip()[:1000], category, ending.exit_code)


def command(order: Order) -> Command:
    return Command(
        argv=order.argv,
        environment=order.environment,
        directory=order.directory,
        uid=account.uid(),
        gid=order.group,
        rules=account.rules(order.limits.cpu),
        limits=order.limits,
        name=order.program,
    )


def _asked_to_end(ending: Ending) -> dict[str, str]:
    """For the run's record: when it was sent TERM, and KILL."""
    moments = {"term_at": ending.term_at, "kill_at": ending.kill_at}
    return {name: datetime.fromtimestamp(at, UTC).isoformat() for name, at in moments.items() if at is not None}


async def _within(child: Child, seconds: float) -> bool:
    try:
        async with asyncio.timeout(max(seconds, 0)):
            await child.ended()
    except TimeoutError:
        return False
    return True
