"""The process of a session: it stays, is given messages in their order, and what it says is kept by the line.

A message is a line: line ends inside of one are given as spaces. To an agent of the pattern json-rpc it is a request,
`{"jsonrpc": "2.0", "id": <seq>, "method": "message", "params": {"text": …}}`. Nothing of a session lives in the
processes that people speak through: they write rows, and this reads them.
"""

import asyncio
import json
import re
import time
from contextlib import suppress
from functools import partial

from django.db import transaction

from supervisor import transcripts
from supervisor.cancelling import GRACE, SHORT_GRACE
from supervisor.choices import ErrorCategory, ExecutionState, InputPattern, SessionState
from supervisor.models import Execution, Session
from supervisor.nursery import Child, Ending, Nursery
from supervisor.runner.capture import Capture
from supervisor.runner.desk import Desk
from supervisor.runner.lines import Lines
from supervisor.runner.program import Program
from supervisor.runner.words import Ended, Order
from supervisor.transcripts import Said

S, C = ExecutionState, ErrorCategory
LOOK_EVERY = 0.25
#: Seconds between the end of its input and asking it to end.
PATIENCE = 2.0
LINE_END = re.compile(r"\r\n|\r|\n")
BY_ITSELF = "The agent ended it."
GONE = "Its process has ended."
TOO_MUCH = "It said more than a session holds and was ended."


class Conversation(Program):
    def __init__(self, nursery: Nursery, order: Order, *, run: Execution, capture: Capture, desk: Desk) -> None:
        super().__init__(nursery, order, pattern=run.agent.output_pattern, timeout=run.timeout, capture=capture)
        self._run = run
        self._agent = run.agent
        self._desk = desk
        self._lines = Lines(order.secrets)
        #: Lines that are not written yet, and how many are.
        self._unwritten: list[str] = []
        self._written = 0
        #: How many messages there were at the last look, and the last that was taken.
        self._known = self._taken = 0
        self._to_give: asyncio.Queue[bytes] = asyncio.Queue()
        self._stirred = time.monotonic()
        #: Why it is being ended, once it is.
        self._closing = ""
        #: Its time is up, which is another end than one that was asked for.
        self._overran = False

    def _hear(self, name: str, data: bytes) -> None:
        if name == "out":
            self._lines.take(data)
        else:
            super()._hear(name, data)

    async def _attend(self, child: Child) -> None:
        giving = asyncio.create_task(self._give(child))
        try:
            await self._talk(child)
        except Exception:
            # Nobody would speak to it any more.
            child.kill()
            raise
        finally:
            giving.cancel()

    async def _overrun(self, child: Child) -> None:
        self._overran = True
        await super()._overrun(child)
        await self._refuse_more(self._too_long)

    async def _take_last(self) -> None:
        await super()._take_last()
        await self._insist(last=True)

    def _read(self, ending: Ending, *, late: bool) -> Ended:
        if self._flag is None and not (ending.exceeded or ending.lost):
            if self._closing == TOO_MUCH:
                return Ended(S.FAILED, TOO_MUCH, C.AGENT_ERROR, ending.exit_code)
            if self._closing:
                return Ended(S.COMPLETED, self._closing, exit_code=ending.exit_code)
        return super()._read(ending, late=late)

    def _answered(self, ending: Ending) -> Ended:
        """What it answered is what it said."""
        return Ended(S.COMPLETED, BY_ITSELF, exit_code=ending.exit_code)

    async def _talk(self, child: Child) -> None:
        """Until there is a reason to end it, and then until it has had its time to end by itself."""
        while not (why := await self._look()):
            await asyncio.sleep(LOOK_EVERY)
        if self._overran:
            return
        self._closing = why
        if why != TOO_MUCH:
            with suppress(TimeoutError):
                async with asyncio.timeout(PATIENCE):
                    await self._to_give.join()
                    await child.close_stdin()
                    await child.ended()
        child.end(SHORT_GRACE if why == TOO_MUCH else GRACE)

    async def _look(self) -> str:
        """Pass on what was said, either way; then why it should end, if it should."""
        before = self._known
        session, taken = await self._insist()
        for message in taken:
            self._to_give.put_nowait(_line(message, self._agent.input_pattern))
        if session.messages_count != before:
            self._stirred = time.monotonic()
        if session.close_requested_at or session.state == SessionState.CLOSED:
            return session.close_reason or BY_ITSELF
        if self._lines.overflows or transcripts.is_full(session):
            await self._refuse_more(TOO_MUCH)
            return TOO_MUCH
        idle = time.monotonic() - self._stirred > self._agent.idle_timeout and not self._agent.keep_alive
        said = f"idle: nothing was said for {self._agent.idle_timeout} s"
        return said if idle and await self._refuse_more(said, unless_stirred=True) else ""

    async def _give(self, child: Child) -> None:
        """As fast as it reads; what it does not read holds nothing else up."""
        while True:
            await child.write(await self._to_give.get())
            self._to_give.task_done()

    async def _insist(self, *, last: bool = False) -> tuple[Session, list[Said]]:
        return await self._desk.insist(partial(self._exchange, last=last), before_again=self._look_again)

    async def _refuse_more(self, why: str, *, unless_stirred: bool = False) -> bool:
        work = partial(self._end, why, unless_stirred=unless_stirred)
        return await self._desk.insist(work, before_again=self._look_again)

    # ── In the thread of the desk ─────────────────────────────────────────────────────────────────────────────────
    def _exchange(self, *, last: bool) -> tuple[Session, list[Said]]:
        """Write what the agent said and take what it is to be told; a look that finds neither locks nothing."""
        self._unwritten += self._lines.said(last=last)
        session = Session.objects.get(execution=self._run)
        nothing_new = session.messages_count == self._known and not self._unwritten
        if (nothing_new and not last) or session.state == SessionState.CLOSED:
            return session, []
        with transaction.atomic():
            session = transcripts.locked(session)
            heard = transcripts.hear(session, self._unwritten)
            taken = [] if last else transcripts.take(session, after=self._taken)
            if last:
                transcripts.ask_for_end(session, GONE)
        self._written += heard
        self._unwritten = []
        self._known, self._taken = session.messages_count, taken[-1].seq if taken else self._taken
        return session, taken

    def _end(self, why: str, *, unless_stirred: bool) -> bool:
        """Under the lock of its row: a message is there before this and is given, or comes after and is refused."""
        with transaction.atomic():
            session = transcripts.locked(Session.objects.get(execution=self._run))
            if unless_stirred and session.messages_count != self._known:
                return False
            transcripts.ask_for_end(session, why)
        return True

    def _look_again(self) -> None:
        """After a try of which nobody knows whether it was committed."""
        there = transcripts.count_heard(self._run)
        del self._unwritten[: there - self._written]
        self._written = there


def _line(message: Said, pattern: str) -> bytes:
    if pattern == InputPattern.JSON_RPC:
        request = {"jsonrpc": "2.0", "id": message.seq, "method": "message", "params": {"text": message.text}}
        return json.dumps(request).encode() + b"\n"
    return LINE_END.sub(" ", message.text).encode() + b"\n"
