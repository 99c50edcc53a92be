"""The channel between the stdio host and one server's process: requests and answers over two pipes."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from mcp.protocol import jsonrpc, legacy
from mcp.protocol.jsonrpc import Message
from mcp.protocol.progress import ProgressFilter
from mcp.protocol.upstream_errors import UpstreamFault
from mcp.stdio_host.output import parse_messages

#: Builds a request with the given id.
RequestBuilder = Callable[[int], Message]
ProgressCallback = Callable[[Message], None]


@dataclass
class PendingRequest:
    """A request and its future answer. Once `sent` is set, the server may have acted on it."""

    sent: bool = False
    answer: "asyncio.Future[Message]" = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    progress: ProgressFilter | None = None
    on_progress: ProgressCallback | None = None


class ProcessChannel:
    """The channel from the host to the process of one server: JSON-RPC over two pipes, any number of requests at once.

    The reader of the process's output passes each line to `receive_line`. The channel calls back to write a line,
    and when the server's list of tools changes.
    """

    def __init__(self, write: Callable[[bytes], None], on_tools_changed: Callable[[], None]) -> None:
        self._write = write
        self._on_tools_changed = on_tools_changed
        self._pending: dict[int, PendingRequest] = {}
        self._last_id = 0
        self._fault: UpstreamFault | None = None
        #: Counts of lines that are not messages, of answers to abandoned requests, and of `tools/list_changed`.
        self.invalid_lines = self.late_answers = self.list_changes = 0
        self.last_message_at = time.monotonic()

    @property
    def in_flight(self) -> int:
        return len(self._pending)

    async def request(
        self, build: RequestBuilder, pending_request: PendingRequest, *, may_cancel: bool = True
    ) -> Message:
        """Send a request and return its result. Cancelling the task also cancels the request."""
        if self._fault is not None:
            raise self._fault
        self._last_id += 1
        number = self._last_id
        if pending_request.on_progress is not None:
            pending_request.progress = ProgressFilter(number)
        self._write(jsonrpc.encode(build(number)))
        pending_request.sent = True
        self._pending[number] = pending_request
        try:
            answer = await pending_request.answer
        except asyncio.CancelledError:
            if may_cancel:
                self._notify_cancelled(number)
            raise
        finally:
            self._pending.pop(number, None)
        return jsonrpc.read_result(answer)

    def notify(self, message: Message) -> None:
        self._write(jsonrpc.encode(message))

    def fail(self, fault: UpstreamFault) -> None:
        """Close the channel: all pending and later requests fail."""
        self._fault = UpstreamFault(fault.code, fault.detail, sent=False)
        for pending_request in self._pending.values():
            if not pending_request.answer.done():
                pending_request.answer.set_exception(UpstreamFault(fault.code, fault.detail, sent=True))

    def receive_line(self, line: bytes) -> None:
        if not line.strip():
            return
        messages = parse_messages(line)
        self.invalid_lines += not messages
        self.last_message_at = time.monotonic() if messages else self.last_message_at
        for message in messages:
            if "method" in message:
                self._handle_server_message(message)
            else:
                self._resolve_answer(message)

    def _resolve_answer(self, message: Message) -> None:
        number = message.get("id")
        pending_request = self._pending.get(number) if type(number) is int else None
        if pending_request is None or pending_request.answer.done():
            self.late_answers += 1
        else:
            pending_request.answer.set_result(message)

    def _handle_server_message(self, message: Message) -> None:
        """Answer a request of the server, or handle its notification."""
        if (reply := legacy.build_reply(message)) is not None:
            self._try_notify(reply)
        elif message["method"] == "notifications/tools/list_changed":
            self.list_changes += 1
            self._on_tools_changed()
        else:
            for pending_request in self._pending.values():
                if (
                    pending_request.progress
                    and pending_request.on_progress
                    and (step := pending_request.progress.select(message)) is not None
                ):
                    pending_request.on_progress(step)

    def _notify_cancelled(self, number: int) -> None:
        self._try_notify(legacy.cancelled_notification(number, "The caller no longer waits for it."))

    def _try_notify(self, message: Message) -> None:
        try:
            self.notify(message)
        except UpstreamFault:
            # The process has ended, and pending requests fail through `fail`.
            return
