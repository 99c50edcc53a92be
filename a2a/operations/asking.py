"""The one way into the operations, for every binding: who asks, of which agent, for what."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from uuid import UUID

from a2a import callback_urls, endpoints, parts
from a2a.operations import answers, faults, following, rooms, visits
from a2a.operations.answers import Began
from a2a.operations.desk import desk
from a2a.operations.following import Item
from a2a.operations.table import OPERATIONS, Operation
from a2a.operations.visits import Shown, Visit
from a2a.wire.faults import Fault, Kind
from common.context import RequestContext, bind_context

#: A caller who waits for an end hears how things stand after this long: no proxy holds a silent request for ever.
LONGEST_WAIT = 60.0
#: Whether a reader may still read is judged anew as often.
JUDGED_EVERY = 15.0
#: Seconds for which a judgement holds while there is something to tell.
TRUSTED = 1.0
#: What a scope speaks of, as the decision about each finds.
SENDS = frozenset({"SendMessage", "SendStreamingMessage"})
#: Of one caller at a time, in this process.
MOST_STREAMS = 256


@dataclass(frozen=True)
class Asked:
    operation: str
    agent: str
    shown: Shown = field(repr=False)
    source: str
    request_id: UUID
    #: In the shape of A2A 1.0, as `a2a.wire` read them.
    params: dict[str, Any]
    #: `json_rpc`, `http_json` or `grpc`.
    transport: str
    #: `1.0` or `0.3`.
    version: str = "1.0"
    idempotency_key: str | None = None
    #: Bytes of what was sent.
    size: int = 0


async def admit(agent: str, shown: Shown, source: str, request_id: UUID) -> None:
    """Refuse who may ask nothing of this agent, or of any where none is named; before trouble is taken over a body."""
    asked = Asked("", agent, shown, source, request_id, {}, "")
    await _done(asked, partial(_visit, asked) if agent else partial(visits.known, shown))


async def answer(asked: Asked) -> dict[str, Any]:
    """The result of an operation that has one, in the shape of A2A 1.0; raises `Fault`."""
    operation = _operation(asked, streams=False)
    await _look_up(operation, asked)
    judged = time.monotonic()
    found = await _done(asked, partial(_run, operation, asked))
    if not isinstance(found, Began):
        return dict(found)
    if found.waits:
        with suppress(TimeoutError):
            async with asyncio.timeout(LONGEST_WAIT):
                await rooms.settled(found.task)
        # Whoever waited may have been stopped meanwhile.
        if time.monotonic() - judged > TRUSTED:
            await _done(asked, partial(_judge, asked, found.task.pk))
    return dict(await _done(asked, partial(answers.sent, found)))


async def stream(asked: Asked, *, after: int | None = None) -> AsyncGenerator[Item | None, None]:
    """What happens to a task, each event once and in order; None now and then, while nothing does.

    `after` is the number of the last event that the caller has seen. Raises `Fault` before the first item, or where the
    caller may read no further.
    """
    operation = _operation(asked, streams=True)
    await _look_up(operation, asked)
    began: Began = await _done(asked, partial(_begin_stream, operation, asked))
    try:
        async with aclosing(following.follow(began, after=after, quiet=JUDGED_EVERY)) as told:
            judged = time.monotonic()
            async for item in told:
                if item is None or time.monotonic() - judged > TRUSTED:
                    await _done(asked, partial(_judge, asked, began.task.pk))
                    judged = time.monotonic()
                yield item
                # Until the next one comes, nobody needs it.
                del item
    except Exception as error:
        raise faults.of(error) from error
    finally:
        following.streams.give_back(began.caller_id)


def _operation(asked: Asked, *, streams: bool) -> Operation:
    found = OPERATIONS.get(asked.operation)
    if found is None or found.streams != streams:
        raise Fault(Kind.METHOD_NOT_FOUND, "There is no such operation.")
    return found


async def _look_up(operation: Operation, asked: Asked) -> None:
    """Where a receiver's name leads: in the loop, since name servers may be slow, and for who may visit the agent."""
    found = operation.receiver(asked.params)
    if found is None:
        return
    await admit(asked.agent, asked.shown, asked.source, asked.request_id)
    url, field = found
    try:
        await callback_urls.reached(url, field=field)
    except Exception as error:
        raise faults.of(error) from error


def _begin_stream(operation: Operation, asked: Asked) -> Began:
    visit = _visit(asked)
    following.streams.take(visit.caller_id, most=MOST_STREAMS)
    try:
        began: Began = _of(visit, operation, asked)
    except BaseException:
        following.streams.give_back(visit.caller_id)
        raise
    return began


def _run(operation: Operation, asked: Asked) -> Any:
    return _of(_visit(asked), operation, asked)


def _of(visit: Visit, operation: Operation, asked: Asked) -> Any:
    if operation.name not in SENDS:
        visits.require_whole(visit.caller)
    endpoints.require(
        visit.endpoint,
        transport=asked.transport,
        operation=operation.name,
        size=asked.size,
        content_types=parts.media_of(asked.params.get("message", {}).get("parts", ())),
    )
    return operation.run(visit, asked.params)


def _visit(asked: Asked) -> Visit:
    return visits.begin(
        agent=asked.agent, shown=asked.shown, version=asked.version, idempotency_key=asked.idempotency_key
    )  # fmt: skip


def _judge(asked: Asked, task_id: UUID) -> None:
    """Whether who follows a task still may."""
    visits.task(_visit(asked), str(task_id))


async def _done(asked: Asked, work: Callable[[], Any]) -> Any:
    try:
        return await desk.do(partial(_within, asked, work))
    except Exception as error:
        raise faults.of(error) from error


def _within(asked: Asked, work: Callable[[], Any]) -> Any:
    with bind_context(RequestContext(asked.request_id, asked.source)):
        return work()
