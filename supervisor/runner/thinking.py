"""One try of a model in task mode: it is asked, calls the tools it wants, is told what came of them, until it answers.

A try that fails for a passing reason leaves the conversation where it was, and the next one goes on from there: no tool
is called again for it. What a model reads of tools is data of others; whatever it makes of that, each call is decided,
limited and recorded like any other call of its identity.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from common.errors import GatehouseError
from mcp.limits.breakers import BreakerOpen
from supervisor.chat import Answer, Call, ChatFault
from supervisor.choices import ErrorCategory, ExecutionState
from supervisor.runner.bookkeeping import Flag
from supervisor.runner.capture import MOST_KEPT, Capture
from supervisor.runner.desk import AWAY
from supervisor.runner.guarding import guarded
from supervisor.runner.questions import Question
from supervisor.runner.tools import Tools
from supervisor.runner.usage import Meter
from supervisor.runner.words import CannotStart, Ended

S, C = ExecutionState, ErrorCategory
#: Characters of all that was said; each request carries it anew.
LONGEST_TALK = 4 * 1024 * 1024
#: Ends of an answer that somebody who reads it should know of.
CUT_SHORT = {"length": "as long as the endpoint lets answers be", "content_filter": "filtered by the endpoint"}
OURS = "Gatehouse could not go on: "
Json = dict[str, Any]


class Thinking:
    #: A model runs elsewhere; nothing of it can be measured here.
    meter: Meter | None = None

    def __init__(self, question: Question, *, timeout: float, capture: Capture) -> None:
        self._question = question
        self._talk = question.talk
        self._timeout = timeout
        self._capture = capture
        self._tools = Tools(question.token, self._tell)
        self._work: asyncio.Task[Ended] | None = None
        self._flag: Flag | None = None
        self._doomed = False

    async def run(self, started: Callable[[int | None], Awaitable[None]]) -> Ended:
        await started(None)
        if self._flag is None and not self._doomed:
            self._work = work = asyncio.create_task(self._think())
            try:
                await asyncio.wait({work}, timeout=self._timeout)
            finally:
                await _gone(work)
        await asyncio.to_thread(self._capture.digest, last=True)
        return self._read()

    def stop(self, flag: Flag) -> None:
        self._flag = self._flag or flag
        self._cancel()

    def kill(self) -> None:
        self._doomed = True
        self._cancel()

    def _cancel(self) -> None:
        if self._work is not None:
            self._work.cancel()

    def _read(self) -> Ended:
        if self._flag is not None:
            return self._ended(S.CANCELLED, f"{self._flag.who}: {self._flag.reason}")
        if self._work is None or self._work.cancelled():
            return self._ended(S.TIMEOUT, f"It did not answer within {self._timeout:g} s.", C.AGENT_ERROR)
        return self._work.result()

    async def _think(self) -> Ended:
        try:
            text = await self._answered()
        except ChatFault as fault:
            said = self._capture.redacted(str(fault))
            return self._ended(S.FAILED, said, fault.category, wait=fault.wait)
        except BreakerOpen as resting:
            return self._ended(S.FAILED, resting.message, C.TRANSIENT, is_final=True)
        except CannotStart as problem:
            return self._ended(S.FAILED, problem.message, problem.category)
        except GatehouseError as problem:
            return self._ended(S.FAILED, f"{OURS}{problem.message}", C.SYSTEM_ERROR)
        except AWAY:
            return self._ended(S.FAILED, f"{OURS}the database was away.", C.SYSTEM_ERROR)
        data = text.encode()
        kept = data[:MOST_KEPT].decode(errors="ignore")
        return self._ended(S.COMPLETED, answer=kept, answer_bytes=len(data), answer_cut=len(data) > MOST_KEPT)

    def _ended(
        self, state: ExecutionState, message: str = "", category: ErrorCategory | None = None, **facts: Any
    ) -> Ended:
        return Ended(state, message, category, context=self._notes(), **facts)

    async def _answered(self) -> str:
        while True:
            answer = await self._next()
            if not answer.calls:
                return answer.text
            if self._talk.steps >= self._question.most_steps:
                raise ChatFault(C.AGENT_ERROR, f"It came to no answer within {self._question.most_steps} steps.")
            if answer.text and not answer.text.endswith("\n"):
                self._hear("\n")
            await self._use(answer)

    async def _next(self) -> Answer:
        if self._talk.size > LONGEST_TALK:
            raise ChatFault(C.AGENT_ERROR, f"Its conversation is longer than {LONGEST_TALK >> 20} MiB.")
        offered = await self._tools.offered()
        async with guarded(self._question.service):
            answer = await self._question.endpoint.ask(self._talk.messages, offered, on_text=self._hear)
        self._talk.steps += 1
        self._talk.used += answer.used
        if (why := CUT_SHORT.get(answer.finish)) is not None:
            self._tell(f"The answer is not whole: it was {why}.")
        return answer

    async def _use(self, answer: Answer) -> None:
        """One after the other: a limit on calls at the same time would refuse the second of two."""
        results = [await self._called(call) for call in answer.calls]
        # Only now, and together: the API takes no call without its result.
        self._talk.add(_said(answer), *results)

    async def _called(self, call: Call) -> Json:
        if self._flag is not None or self._doomed:
            # A call may have ended as one whose access ended, and its cancellation with it.
            raise asyncio.CancelledError
        self._talk.calls += 1
        return {"role": "tool", "tool_call_id": call.id, "content": await self._tools.call(call)}

    def _hear(self, text: str) -> None:
        self._capture.take("out", text.encode())

    def _tell(self, line: str) -> None:
        """Progress, for those who watch: one line beside the answer."""
        clean = "".join(mark if mark.isprintable() else " " for mark in line)
        self._capture.take("err", f"{clean}\n".encode(errors="replace"))

    def _notes(self) -> Json:
        """What the run's record says of it besides."""
        talk = self._talk
        counts = {"steps": talk.steps, "tool_calls": talk.calls}
        tokens = {"prompt_tokens": talk.used.prompt, "completion_tokens": talk.used.completion}
        return {"model": {"name": self._question.endpoint.model, **counts, **tokens}}


def _said(answer: Answer) -> Json:
    calls = [
        {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": _object(call.arguments)}}
        for call in answer.calls
    ]
    return {"role": "assistant", "content": answer.text or None, "tool_calls": calls}


def _object(arguments: str) -> str:
    """Some endpoints fail on arguments that are none; what was wrong with them the model is told as the result."""
    try:
        return arguments if isinstance(json.loads(arguments), dict) else "{}"
    except (ValueError, RecursionError):
        return "{}"


async def _gone(work: "asyncio.Task[Ended]") -> None:
    """Nothing of it may go on unseen."""
    while not work.done():
        work.cancel()
        with suppress(asyncio.CancelledError):
            await asyncio.wait({work}, timeout=5)
