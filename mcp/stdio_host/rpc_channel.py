"""Requests to one server and their answers, by id: any number at once over its two pipes."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from mcp.protocol import jsonrpc, legacy
from mcp.protocol.errors import UpstreamFault
from mcp.protocol.jsonrpc import Message
from mcp.protocol.progress import Progress
from mcp.stdio_host.lines import messages

#: Makes a request for the id it is given.
Build = Callable[[int], Message]
Told = Callable[[Message], None]


@dataclass
class Asked:
    """A request on its way; after `sent` nobody knows what the server did with it."""

    sent: bool = False
    answer: "asyncio.Future[Message]" = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    progress: Progress | None = None
    told: Told | None = None


class Channel:
    """`write` takes a line; whoever reads lines gives them to `take`. `changed` is told of a new list of tools."""

    def __init__(self, write: Callable[[bytes], None], changed: Callable[[], None]) -> None:
        self._write = write
        self._changed = changed
        self._pending: dict[int, Asked] = {}
        self._last_id = 0
        self._fault: UpstreamFault | None = None
        #: Lines that were no messages; answers that nobody waited for any more; word that the list of tools changed.
        self.noise = self.late = self.changes = 0
        self.heard = time.monotonic()

    @property
    def in_flight(self) -> int:
        return len(self._pending)

    async def ask(self, build: Build, asked: Asked, *, may_cancel: bool = True) -> Message:
        """The result. When the waiting task is cancelled, so is the request."""
        if self._fault is not None:
            raise self._fault
        self._last_id += 1
        number = self._last_id
        if asked.told is not None:
            asked.progress = Progress(number)
        self._write(jsonrpc.encode(build(number)))
        asked.sent = True
        self._pending[number] = asked
        try:
            answer = await asked.answer
        except asyncio.CancelledError:
            if may_cancel:
                self._tell_cancelled(number)
            raise
        finally:
            self._pending.pop(number, None)
        return jsonrpc.outcome(answer)

    def tell(self, message: Message) -> None:
        self._write(jsonrpc.encode(message))

    def fail(self, fault: UpstreamFault) -> None:
        """Nothing more will come: everybody who waits is told at once."""
        self._fault = UpstreamFault(fault.code, fault.detail, sent=False)
        for asked in self._pending.values():
            if not asked.answer.done():
                asked.answer.set_exception(UpstreamFault(fault.code, fault.detail, sent=True))

    def take(self, line: bytes) -> None:
        if not line.strip():
            return
        found = messages(line)
        self.noise += not found
        self.heard = time.monotonic() if found else self.heard
        for message in found:
            if "method" in message:
                self._hear(message)
            else:
                self._settle(message)

    def _settle(self, message: Message) -> None:
        number = message.get("id")
        asked = self._pending.get(number) if type(number) is int else None
        if asked is None or asked.answer.done():
            self.late += 1
        else:
            asked.answer.set_result(message)

    def _hear(self, message: Message) -> None:
        """A question of the server's, which is declined, or a notification."""
        if (reply := legacy.reply(message)) is not None:
            self._try(reply)
        elif message["method"] == "notifications/tools/list_changed":
            self.changes += 1
            self._changed()
        else:
            for asked in self._pending.values():
                if asked.progress and asked.told and (step := asked.progress.of(message)) is not None:
                    asked.told(step)

    def _tell_cancelled(self, number: int) -> None:
        self._try(legacy.cancelled(number, "The caller no longer waits for it."))

    def _try(self, message: Message) -> None:
        try:
            self.tell(message)
        except UpstreamFault:
            # It has gone, and whoever waits for it hears that from elsewhere.
            return
