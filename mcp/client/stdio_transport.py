"""Calls stdio servers through the stdio host, whose socket serves many concurrent requests."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import UUID
from weakref import WeakKeyDictionary

from django.conf import settings

from mcp.client.connection import list_all_tools
from mcp.client.types import Handshake, OnProgress, ServerTarget
from mcp.protocol import modern, socket_frames
from mcp.protocol.jsonrpc import Message
from mcp.protocol.socket_frames import BadFrame
from mcp.protocol.upstream_errors import UpstreamError, UpstreamFailure, UpstreamFault

HOST_UNAVAILABLE_MESSAGE = (
    "The process that runs stdio servers is not there. `manage.py up` starts it; without that, start "
    "`manage.py mcp_stdio_owner` on this host."
)
HOST_ENDED_MESSAGE = "The process that runs stdio servers ended; it is started again."
#: The host enforces the deadline. The client gives up this much later.
GRACE_SECONDS = 2.0


class StdioHostLink:
    """One connection to the stdio host."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self._last_id = 0
        self._answer_queues: dict[int, asyncio.Queue[Message]] = {}
        self._reader_task = asyncio.create_task(self._read(reader))

    @property
    def is_closed(self) -> bool:
        return self._reader_task.done()

    async def request(self, request: Message, on_progress: OnProgress | None = None) -> Message:
        if self.is_closed:
            raise UpstreamFault("not_running", HOST_ENDED_MESSAGE, sent=False)
        self._last_id += 1
        request_id = self._last_id
        self._answer_queues[request_id] = answers = asyncio.Queue[Message]()
        try:
            self._writer.write(socket_frames.pack_frame({**request, "id": request_id}))
            while "progress" in (answer := await answers.get()):
                if on_progress is not None:
                    await on_progress(answer["progress"])
            return answer
        except BaseException:
            if request_id in self._answer_queues and not self._writer.is_closing():
                self._writer.write(socket_frames.pack_frame({"id": request_id, "do": "cancel"}))
            raise
        finally:
            self._answer_queues.pop(request_id, None)

    async def close(self) -> None:
        self._reader_task.cancel()
        self._writer.close()
        with suppress(asyncio.CancelledError, ConnectionError):
            await self._reader_task
            await self._writer.wait_closed()

    async def _read(self, reader: asyncio.StreamReader) -> None:
        try:
            while (frame := await socket_frames.read_frame(reader)) is not None:
                if (answers := self._answer_queues.get(frame.get("id", 0))) is not None:
                    answers.put_nowait(frame)
        except BadFrame:
            return
        finally:
            self._writer.close()
            for answers in self._answer_queues.values():
                answers.put_nowait({"fault": {"code": "not_running", "detail": HOST_ENDED_MESSAGE, "sent": True}})


class StdioTransport:
    """Calls stdio servers over one link per event loop. It opens the link on demand and again after it is lost."""

    def __init__(self, path: Callable[[], Path] = lambda: settings.STDIO_SOCKET) -> None:
        self._path = path
        self._links: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Task[StdioHostLink]] = WeakKeyDictionary()

    async def handshake(self, target: ServerTarget, *, timeout: float) -> Handshake:
        answer = await self._send_request({**_address_target(target), "do": "greet"}, timeout=timeout)
        return Handshake(**{**answer, "steps": tuple(answer["steps"])})

    async def list_tools(self, target: ServerTarget, *, timeout: float) -> list[dict[str, Any]]:
        deadline = asyncio.get_running_loop().time() + timeout

        async def page(params: Message) -> Message:
            remaining = max(deadline - asyncio.get_running_loop().time(), 0)
            return await self._request(target, "tools/list", params, timeout=remaining)

        return await list_all_tools(page)

    async def call_tool(
        self,
        target: ServerTarget,
        name: str,
        arguments: dict[str, Any],
        *,
        timeout: float,
        meta: dict[str, Any] | None = None,
        on_progress: OnProgress | None = None,
        input_schema: dict[str, Any] | None = None,  # noqa: ARG002 - only HTTP mirrors arguments in headers
    ) -> dict[str, Any]:
        params = {"name": name, "arguments": arguments}
        return await self._request(target, "tools/call", params, timeout=timeout, meta=meta, on_progress=on_progress)

    async def status(self, server_id: UUID, *, timeout: float = 2) -> dict[str, Any]:
        """Return the status of the server's process: pid, since, starts, failures and unredacted standard error."""
        return await self._send_request({"server": str(server_id), "do": "status"}, timeout=timeout)

    async def close(self) -> None:
        opening = self._links.pop(asyncio.get_running_loop(), None)
        if opening is not None:
            with suppress(UpstreamFault):
                await (await opening).close()

    async def _request(
        self,
        target: ServerTarget,
        method: str,
        params: Message,
        *,
        timeout: float,
        meta: Message | None = None,
        on_progress: OnProgress | None = None,
    ) -> Message:
        request = {**_address_target(target), "do": "ask", "method": method, "params": params, "meta": meta or {}}
        request["progress"] = on_progress is not None
        return modern.require_complete(await self._send_request(request, timeout=timeout, on_progress=on_progress))

    async def _send_request(
        self, request: Message, *, timeout: float, on_progress: OnProgress | None = None
    ) -> Message:
        link = await self._link()
        try:
            async with asyncio.timeout(timeout + GRACE_SECONDS):
                answer = await link.request({**request, "timeout": timeout}, on_progress)
        except TimeoutError:
            raise UpstreamFault("timeout", f"No answer within {timeout:g} s.", sent=True) from None
        except BadFrame as error:
            raise UpstreamFault("too_large", str(error), sent=False) from None
        if "result" in answer:
            return dict(answer["result"])
        raise _parse_failure(answer)

    async def _link(self) -> StdioHostLink:
        loop = asyncio.get_running_loop()
        opening = self._links.get(loop)
        if opening is None or (opening.done() and _is_lost(opening)):
            opening = self._links[loop] = loop.create_task(self._open())
            # Retrieve the exception: the caller may have stopped waiting.
            opening.add_done_callback(_is_lost)
        return await asyncio.shield(opening)

    async def _open(self) -> StdioHostLink:
        try:
            return StdioHostLink(*await asyncio.open_unix_connection(self._path()))
        except OSError:
            raise UpstreamFault("not_running", HOST_UNAVAILABLE_MESSAGE, sent=False) from None


def _is_lost(opening: "asyncio.Task[StdioHostLink]") -> bool:
    return opening.cancelled() or opening.exception() is not None or opening.result().is_closed


def _address_target(target: ServerTarget) -> Message:
    return {"server": str(target.server_id), "revision": target.revision}


def _parse_failure(answer: Message) -> UpstreamFailure:
    failure: UpstreamFailure
    if "error" in answer:
        error = answer["error"]
        failure = UpstreamError(error["code"], error["message"], error["data"])
    else:
        fault = answer["fault"]
        failure = UpstreamFault(fault["code"], fault["detail"], sent=fault["sent"])
    failure.steps = tuple(answer.get("steps", ()))
    return failure
