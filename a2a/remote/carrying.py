"""Carrying a task to another A2A server and back: each message is sent once, and what comes of it followed to its end.

Whatever a process knows of a task is in its rows: another goes on with it after a restart.
"""

import asyncio
from contextlib import aclosing
from dataclasses import replace
from enum import Enum
from uuid import UUID

from a2a.carriers import Check
from a2a.choices import TaskState
from a2a.remote import asking, finding, keeping, pausing, reading, relaying
from a2a.remote.client import IDLE_SECONDS, Client
from a2a.remote.forwarding import forward_cancel
from a2a.remote.guarding import Guard
from a2a.remote.keeping import Standing
from a2a.remote.reading import Item
from a2a.remote.relaying import After
from a2a.remote.target import Interface, Target
from a2a.remote.troubles import NO_ROOM, Code, Trouble
from a2a.remote.watching import eyes
from a2a.wire.faults import Kind
from a2a.writer import TaskEnded
from common.executors import run_in_thread

#: For a message that is just leaving when this ends: only its answer says what to go on with, or to cancel.
GRACE = 5.0
#: After these nobody knows whether what was sent arrived.
UNKNOWN = frozenset({Code.UNREACHABLE, Code.TIMEOUT})


class Carried(Enum):
    ENDED = "ended"
    #: For its caller's next message: then it is to be carried again.
    WAITING = "waiting"


async def carry(*, task_id: UUID, target: Target, check: Check | None = None) -> Carried:
    """Send on what its caller said and follow it, until it ends, here or there, or asks for more.

    `check` looks at the locked row before each write, and raises where the task is with somebody else by now.
    """
    carrier = _Carrier(task_id, target, check)
    async with eyes().on(task_id) as ended:
        carried = await _until(ended, carrier)
    if carried == Carried.ENDED:
        await forward_cancel(task_id=task_id, target=target)
    return carried


async def _until(ended: asyncio.Event, carrier: "_Carrier") -> Carried:
    work, over = asyncio.create_task(carrier.run()), asyncio.create_task(ended.wait())
    try:
        await asyncio.wait({work, over}, return_when=asyncio.FIRST_COMPLETED)
        await carrier.answered(GRACE)
        return work.result() if work.done() else Carried.ENDED
    finally:
        # Also for a worker that ends: whether a message arrived is worth waiting for.
        await carrier.answered(GRACE)
        work.cancel()
        over.cancel()
        await asyncio.gather(work, over, return_exceptions=True)


class _Carrier:
    def __init__(self, task_id: UUID, target: Target, check: Check | None) -> None:
        self._task_id, self._target, self._check = task_id, target, check
        self._pace = pausing.Pace()
        #: Whether the remote side was heard of since this began.
        self._heard = False
        self._without_streams = False
        #: Set while nothing is leaving.
        self._quiet = asyncio.Event()
        self._quiet.set()

    async def run(self) -> Carried:
        while (standing := await run_in_thread(lambda: keeping.look(self._task_id, self._target))) is not None:
            if standing.waits_for_caller and self._heard and not standing.unsure:
                return Carried.WAITING
            try:
                await self._in_time(standing)
            except TaskEnded:
                # Somebody was quicker than our next look.
                return Carried.ENDED
            except Trouble as trouble:
                said = trouble
                await run_in_thread(lambda: keeping.fail(self._task_id, said, check=self._check))  # noqa: B023 - done here
        return Carried.ENDED

    async def answered(self, seconds: float) -> None:
        """Once what is leaving has its answer, or after so long."""
        try:
            async with asyncio.timeout(seconds):
                await self._quiet.wait()
        except TimeoutError:
            return

    async def _in_time(self, standing: Standing) -> None:
        try:
            async with asyncio.timeout(standing.seconds):
                await self._step(standing)
        except TimeoutError:
            if standing.due:
                raise Trouble(Code.DEADLINE, "It was not done by its deadline.") from None
            said = f"The remote agent was not done within {self._target.patience:g} s."
            raise Trouble(Code.TIMEOUT, said) from None

    async def _step(self, standing: Standing) -> None:
        client = Client(self._target, request_id=standing.request_id)
        if standing.unsure:
            await self._settle_unsure(standing)
        elif standing.next is not None:
            await self._send(client, standing)
        else:
            await self._follow(client, standing)

    async def _settle_unsure(self, standing: Standing) -> None:
        if not standing.remote_task_id:
            said = "Gatehouse was interrupted while it sent the task on; nobody knows whether it arrived."
            raise Trouble(Code.LOST, f"{said} It is not sent twice: send a new task.")
        await run_in_thread(lambda: keeping.let_be(self._task_id, check=self._check))

    async def _send(self, client: Client, standing: Standing) -> None:
        for pause in (*pausing.AGAIN, None):
            try:
                await self._try(client, standing)
            except Trouble as trouble:
                if trouble.sent or not trouble.passing or pause is None:
                    raise
                await pausing.before_again(pause, trouble)
            else:
                return

    async def _try(self, client: Client, standing: Standing) -> None:
        async with Guard(self._target.place) as guard:
            interface = standing.interface or await finding.find(client, self._target)
            if self._without_streams:
                interface = replace(interface, streaming=False)
            await run_in_thread(lambda: keeping.intend(standing, interface, check=self._check))
            self._quiet.clear()
            try:
                await self._exchange(client, standing, interface, guard)
            except Trouble as trouble:
                await self._after_trouble(client, standing, interface, trouble)
            finally:
                self._quiet.set()

    async def _exchange(self, client: Client, standing: Standing, interface: Interface, guard: Guard) -> None:
        assert standing.next is not None  # it is what is sent
        ours = {"gatehouse/request_id": standing.request_id, "gatehouse/task_id": str(standing.task_id)}
        metadata = {**standing.metadata, **ours}
        call = asking.sending(interface, standing.next.message, streamed=interface.streaming, metadata=metadata)
        if not interface.streaming:
            await self._arrived([await client.ask(interface, call)], client, guard)
            return
        async with aclosing(client.stream(interface, call)) as steps:
            async for items in steps:
                after = await self._relay(items) if self._quiet.is_set() else await self._arrived(items, client, guard)
                if after.over or after.waits_for_caller:
                    return
        if not self._quiet.is_set():
            said = "The remote agent ended its stream before it had said anything."
            raise Trouble(Code.UNREACHABLE, said, sent=True, passing=True)

    async def _arrived(self, items: list[Item], client: Client, guard: Guard) -> After:
        after = await self._relay(items, answers=True)
        self._quiet.set()
        client.idle = IDLE_SECONDS
        await guard.went_well()
        return after

    async def _after_trouble(self, client: Client, standing: Standing, interface: Interface, trouble: Trouble) -> None:
        """What is known of the message: the answer is there, it never left, or nobody knows."""
        assert standing.next is not None  # it is what was sent
        position = standing.next.position
        if self._quiet.is_set() or trouble.code in NO_ROOM:
            if not trouble.passing:
                raise trouble
            return
        finding.known.forget(self._target)
        if not trouble.sent:
            await run_in_thread(lambda: keeping.stayed(self._task_id, position, check=self._check))
            await self._after_refusal(client, standing, interface, trouble)
        elif not standing.remote_task_id:
            raise _lost(trouble) if trouble.code in UNKNOWN else trouble

    async def _after_refusal(self, client: Client, standing: Standing, interface: Interface, trouble: Trouble) -> None:
        """It knows no streams, or it ended the task meanwhile; else the refusal stands."""
        if trouble.passing:
            raise trouble
        if standing.remote_task_id and await self._is_over_there(client, standing, interface):
            return
        if not (interface.streaming and (trouble.not_offered or trouble.kind == Kind.NOT_FOUND)):
            raise trouble
        finding.without_streams(self._target, interface)
        self._without_streams = True

    async def _is_over_there(self, client: Client, standing: Standing, interface: Interface) -> bool:
        try:
            item = await self._get(client, standing, interface)
        except Trouble:
            return False
        return reading.ends(item) and (await self._relay([item])).over

    async def _follow(self, client: Client, standing: Standing) -> None:
        interface = standing.interface
        if interface is None:
            said = "The remote agent took the task without saying what it is called there."
            raise Trouble(Code.INVALID_ANSWER, said)
        try:
            after = await self._relay([await self._get(client, standing, interface)])
            self._pace.went_well(news=after.news)
            if after.over or after.waits_for_caller:
                return
            if interface.streaming and not self._without_streams and after.state != TaskState.AUTH_REQUIRED:
                await self._listen(client, standing, interface)
        except Trouble as trouble:
            await self._bear(trouble)
        else:
            await self._pace.rest()

    async def _listen(self, client: Client, standing: Standing, interface: Interface) -> None:
        """Until the stream ends; then it is looked again."""
        client.idle = IDLE_SECONDS
        call = asking.of_task(interface, "subscribe", standing.remote_task_id)
        try:
            async with aclosing(client.stream(interface, call)) as steps:
                async for items in steps:
                    after = await self._relay(await self._whole(items, client, standing, interface))
                    self._pace.went_well(news=after.news)
                    if after.over or after.waits_for_caller:
                        return
        except Trouble as trouble:
            if not trouble.not_offered:
                raise
            self._without_streams = True

    async def _whole(self, items: list[Item], client: Client, standing: Standing, interface: Interface) -> list[Item]:
        """0.3 begins a stream that is taken up again with what happens next: at the end, all of it is asked for."""
        if interface.version == "0.3" and any(map(reading.ends, items)):
            return [await self._get(client, standing, interface)]
        return items

    async def _get(self, client: Client, standing: Standing, interface: Interface) -> Item:
        return await client.ask(interface, asking.of_task(interface, "get", standing.remote_task_id))

    async def _bear(self, trouble: Trouble) -> None:
        if trouble.unknown_task:
            raise Trouble(Code.LOST, trouble.said, kind=trouble.kind, operator=trouble.operator) from trouble
        if not trouble.passing or not self._pace.bears():
            raise trouble
        await self._pace.recover(trouble)

    async def _relay(self, items: list[Item], *, answers: bool = False) -> After:
        task_id, check = self._task_id, self._check
        after = await run_in_thread(lambda: relaying.relay(task_id, items, check=check, answers=answers))
        self._heard = True
        return after


def _lost(trouble: Trouble) -> Trouble:
    said = "Nobody knows whether the task arrived, so it is not sent twice: send a new task."
    code = Code.TIMEOUT if trouble.code == Code.TIMEOUT else Code.LOST
    return Trouble(code, f"{trouble.said} {said}", operator=f"{trouble.operator} {said}")
