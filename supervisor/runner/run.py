"""One run of a task agent under a worker: its tries, what it writes meanwhile, its end."""

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from common.errors import InvalidTransition
from supervisor import moves
from supervisor.choices import ErrorCategory, ExecutionState, Kind, Mode
from supervisor.nursery import Nursery
from supervisor.runner import bookkeeping, orders, places, questions
from supervisor.runner.bookkeeping import Flag
from supervisor.runner.capture import Capture
from supervisor.runner.claiming import Claimed
from supervisor.runner.conversation import Conversation
from supervisor.runner.desk import Desk
from supervisor.runner.program import Program
from supervisor.runner.questions import Question
from supervisor.runner.thinking import Thinking
from supervisor.runner.usage import Meter
from supervisor.runner.words import CannotStart, Ended, Order, Piece

log = logging.getLogger(__name__)
T = TypeVar("T")
S = ExecutionState
FLUSH_EVERY = 0.3
WAITS = (1.0, 2.0, 4.0)
FAULT = "The supervisor failed; its log says why."
STOPPED = "The worker was stopped, and what it ran with it."


class Run:
    def __init__(self, claimed: Claimed, nursery: Nursery, desk: Desk) -> None:
        self.execution, self._token = claimed.run, claimed.token
        self._pattern = self.execution.agent.output_pattern
        self._nursery = nursery
        self._desk = desk
        self._program: Program | Thinking | None = None
        self._question: Question | None = None
        self._capture = Capture(frozenset())
        self._meter: Meter | None = None
        self._flag: Flag | None = None
        self._flagged = asyncio.Event()
        self._unwritten: list[Piece] = []
        #: How many pieces of its output are written.
        self._written = 0
        #: Up to which others were told that there is more.
        self._heard_of = 0
        self._begun = time.monotonic()
        #: Why it ends with its worker, once it does.
        self._orphaned = ""

    async def live(self) -> None:
        """From its claimed row to its freed one; whatever goes wrong is an end too."""
        try:
            ended = await self._tries()
        except InvalidTransition:
            ended = Ended(S.FAILED, STOPPED, ErrorCategory.SYSTEM_ERROR)
        except Exception:
            log.exception("A run failed.", extra={"execution": str(self.execution.pk)})
            ended = Ended(S.FAILED, FAULT, ErrorCategory.SYSTEM_ERROR)
        # Given up by others while this worker was not heard of? They have written its end.
        with suppress(InvalidTransition):
            await self._write_end(ended)
        await self._clear_away()
        with suppress(InvalidTransition):
            await self._insist(lambda: bookkeeping.free(self.execution))

    def stop(self, flag: Flag) -> None:
        """Somebody asks for its end. The flag stays up; only the first counts, and one with less grace."""
        if self._flag is not None and self._flag.grace <= flag.grace:
            return
        self._flag = flag
        self._flagged.set()
        if self._program is not None:
            self._program.stop(flag)

    def orphan(self, why: str = STOPPED) -> None:
        """Its worker ends, or was given up by the others: nothing of it may go on."""
        self._orphaned = why
        self._flagged.set()
        if self._program is not None:
            self._program.kill()

    async def _write_end(self, ended: Ended) -> None:
        try:
            await self._insist(lambda: self._finish(ended))
        except InvalidTransition:
            raise
        except Exception:
            log.exception(
                "The end of a run could not be written as it was.", extra={"execution": str(self.execution.pk)}
            )
            await self._insist(lambda: bookkeeping.abandon(self.execution, FAULT))

    async def _tries(self) -> Ended:
        while True:
            self._begun = time.monotonic()
            ended = await self._try()
            if self._orphaned:
                return Ended(S.FAILED, self._orphaned, ErrorCategory.SYSTEM_ERROR, ended.exit_code)
            if not ended.may_be_tried_again or self.execution.retry_count >= self.execution.max_retries:
                return ended
            if not await self._wait_for_another(ended):
                return ended

    async def _wait_for_another(self, ended: Ended) -> bool:
        """Whether there is to be another try: nobody asked for the end meanwhile."""
        wait = max(WAITS[min(self.execution.retry_count, len(WAITS) - 1)], ended.wait)
        await self._insist(self._flush)
        await self._insist(lambda: bookkeeping.note_attempt(self.execution, ended, wait, self._written))
        with suppress(TimeoutError):
            async with asyncio.timeout(wait):
                await self._flagged.wait()
        if self._flagged.is_set():
            return False
        await self._clear_away()
        await self._insist(lambda: bookkeeping.try_again(self.execution))
        return True

    async def _clear_away(self) -> None:
        """As well as can be: a directory that resists must not hold the agent's slot."""
        try:
            await asyncio.to_thread(places.remove, places.of(self.execution.pk))
        except OSError:
            log.exception("What a run left could not be taken away.", extra={"execution": str(self.execution.pk)})

    async def _try(self) -> Ended:
        if self._flag is not None:
            return Ended(S.CANCELLED, f"{self._flag.who}: {self._flag.reason}")
        try:
            order = await self._insist(self._prepare)
        except CannotStart as problem:
            return Ended(S.FAILED, problem.message, problem.category)
        except OSError as error:
            return Ended(S.FAILED, f"Its directory could not be made: {error.strerror}.", ErrorCategory.SYSTEM_ERROR)
        self._capture = Capture(order.secrets)
        program = self._made(order)
        self._program, self._meter = program, program.meter
        self._pass_on(program)
        writing = asyncio.create_task(self._write_along())
        try:
            return await program.run(self._started)
        finally:
            writing.cancel()
            with suppress(asyncio.CancelledError):
                await writing
            self._program = None

    def _made(self, order: Order | Question) -> Program | Thinking:
        run, capture = self.execution, self._capture
        if isinstance(order, Question):
            return Thinking(order, timeout=run.timeout, capture=capture)
        if run.mode == Mode.INTERACTIVE:
            return Conversation(self._nursery, order, run=run, capture=capture, desk=self._desk)
        may_ask = run.task_id is not None
        return Program(
            self._nursery, order, pattern=self._pattern, timeout=run.timeout, capture=capture, may_ask=may_ask
        )

    def _pass_on(self, program: Program | Thinking) -> None:
        """What was asked for while the run was prepared."""
        if self._orphaned:
            program.kill()
        elif self._flag is not None:
            program.stop(self._flag)

    def _prepare(self) -> Order | Question:
        if not self._token:
            raise CannotStart(ErrorCategory.SYSTEM_ERROR, FAULT)
        if self.execution.agent.kind != Kind.MODEL:
            return orders.prepare(self.execution, self._token)
        # Kept: another try goes on where the one before broke off.
        self._question = self._question or questions.prepare(self.execution, self._token)
        return self._question

    async def _started(self, pid: int | None) -> None:
        await self._insist(lambda: bookkeeping.started(self.execution, pid))

    async def _write_along(self) -> None:
        """What it says and uses while it runs, for those who watch."""
        while True:
            await asyncio.sleep(FLUSH_EVERY)
            if self._capture.waiting or (self._meter is not None and self._meter.fresh):
                # The slow part not in the thread that writes for all runs.
                await asyncio.to_thread(self._capture.digest)
                await asyncio.shield(self._insist(self._flush))

    def _flush(self) -> None:
        self._unwritten += self._capture.pieces()
        bookkeeping.keep_output(self.execution, self._unwritten, self._written)
        self._note_written()
        if self._written > self._heard_of:
            self._heard_of = self._written
            moves.wrote(self.execution)
        if self._meter is not None and self._meter.fresh:
            bookkeeping.keep_usage(self.execution, self._meter.measured(), time.monotonic() - self._begun)

    def _finish(self, ended: Ended) -> None:
        self._unwritten += self._capture.pieces()
        used = self._meter.measured() if self._meter else None
        seconds = time.monotonic() - self._begun
        bookkeeping.finish(self.execution, ended, self._capture, self._unwritten, self._written, used, seconds)
        self._note_written()

    def _note_written(self) -> None:
        self._written += len(self._unwritten)
        self._unwritten = []

    def _look_again(self) -> None:
        """After a try of which nobody knows whether it was committed."""
        self.execution.refresh_from_db()
        there = bookkeeping.last_piece(self.execution)
        del self._unwritten[: there - self._written]
        self._written = there

    async def _insist(self, work: Callable[[], T]) -> T:
        return await self._desk.insist(work, before_again=self._look_again)
