"""The Unix socket on which other processes of this installation send requests. No command ever crosses it.

A request has the id of a server, the revision for which the call was decided, and a timeout:

    {"id": 1, "do": "ask", "server": "018f…", "revision": 3, "timeout": 30, "method": "tools/list", "params": {}}

`do` is `ask`, `greet`, `status`, or `cancel` for the request with that id. An answer has the id and one of `result`,
`error` (from the server) and `fault` (from the host). Any number of `progress` messages can precede it.
"""

import asyncio
import logging
import os
import socket
import struct
from dataclasses import asdict
from pathlib import Path
from typing import Any
from uuid import UUID

from mcp.protocol import socket_frames
from mcp.protocol.jsonrpc import Message
from mcp.protocol.socket_frames import BadFrame
from mcp.protocol.upstream_errors import UpstreamError, UpstreamFault
from mcp.stdio_host.hosted_servers import ServerRegistry, describe_status
from mcp.stdio_host.process_channel import PendingRequest

log = logging.getLogger(__name__)
#: Concurrent requests of one connection.
MAX_OPEN_REQUESTS = 2000
MAX_TIMEOUT_SECONDS = 3600.0
#: Progress messages are dropped while the reader has more unread bytes than this.
MAX_UNREAD_BYTES = 1 << 20


class SocketServer:
    """Accepts connections on the host's Unix socket, from processes of the same operating system user only."""

    def __init__(self, servers: ServerRegistry, path: Path) -> None:
        self._servers = servers
        self._path = path
        self._connections: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def open(self) -> None:
        self._path.unlink(missing_ok=True)
        self._server = await asyncio.start_unix_server(self._receive, self._path)
        self._path.chmod(0o600)

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
            self._path.unlink(missing_ok=True)
        for task in self._connections:
            task.cancel()
        if self._connections:
            await asyncio.wait(self._connections)

    async def _receive(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        connection = SocketConnection(self._servers, writer)
        try:
            if _is_same_user(writer.get_extra_info("socket")):
                await connection.serve(reader)
        except BadFrame as error:
            log.warning("A connection was closed: %s", error)
        except asyncio.CancelledError:
            return  # the host stops
        finally:
            self._connections.discard(task)
            connection.close()
            writer.close()


class SocketConnection:
    """One connection with concurrent requests. Closing it cancels them."""

    def __init__(self, servers: ServerRegistry, writer: asyncio.StreamWriter) -> None:
        self._servers = servers
        self._writer = writer
        self._open: dict[int, asyncio.Task[None]] = {}

    async def serve(self, reader: asyncio.StreamReader) -> None:
        while (frame := await socket_frames.read_frame(reader)) is not None:
            number = frame.get("id")
            if type(number) is not int:
                raise BadFrame("A message has no number.")
            if frame.get("do") == "cancel":
                if number in self._open:
                    self._open[number].cancel()
            elif number in self._open:
                raise BadFrame("The number of a message is in use.")
            elif len(self._open) >= MAX_OPEN_REQUESTS:
                detail = "Too many requests are open at the process that runs stdio servers."
                self._send({"id": number, **_build_fault("not_running", detail, sent=False)})
            else:
                self._open[number] = asyncio.create_task(self._answer(number, frame))

    def close(self) -> None:
        for task in self._open.values():
            task.cancel()

    async def _answer(self, number: int, frame: Message) -> None:
        try:
            self._send({"id": number, **await self._run_request(number, frame)})
            await self._writer.drain()
        except (ConnectionError, asyncio.CancelledError):
            return  # the client has gone or cancelled the request
        finally:
            del self._open[number]

    async def _run_request(self, number: int, frame: Message) -> Message:
        pending_request = PendingRequest()
        try:
            request = _HostRequest(frame)
            async with asyncio.timeout(request.timeout):
                return {"result": await self._dispatch(number, request, pending_request)}
        except UpstreamError as error:
            error_body = {"code": error.code, "message": error.message, "data": error.data}
            return {"error": error_body, "steps": error.steps}
        except UpstreamFault as fault:
            return _build_fault(fault.code, fault.detail, sent=fault.sent and pending_request.sent, steps=fault.steps)
        except TimeoutError:
            return _build_fault(
                "timeout", f"The server did not answer within {request.timeout:g} s.", sent=pending_request.sent
            )
        except Exception:
            log.exception("A request failed.")
            return _build_fault(
                "unreachable", "The process that runs stdio servers failed; see its log.", sent=pending_request.sent
            )

    async def _dispatch(self, number: int, request: "_HostRequest", pending_request: PendingRequest) -> Message:
        server = self._servers.find(request.server)
        if request.verb == "status":
            return describe_status(server)
        if request.verb == "greet":
            return asdict(await server.refresh_handshake(request.revision))
        if request.wants_progress:
            pending_request.on_progress = lambda step: self._send_progress(number, step)
        return await server.request(request.revision, request.method, request.params, request.meta, pending_request)

    def _send_progress(self, number: int, step: Message) -> None:
        if self._writer.transport.get_write_buffer_size() < MAX_UNREAD_BYTES:
            self._send({"id": number, "progress": step})

    def _send(self, message: Message) -> None:
        if not self._writer.is_closing():
            self._writer.write(socket_frames.pack_frame(message))


class _HostRequest:
    """A request to the host, parsed from its frame: the verb, the server, and the method to ask for."""

    def __init__(self, frame: Message) -> None:
        try:
            self.verb = _require_one_of(frame["do"], "ask", "greet", "status")
            self.server = UUID(frame["server"])
            self.revision = int(frame.get("revision", 0))
            self.timeout = min(max(float(frame.get("timeout", 30)), 0), MAX_TIMEOUT_SECONDS)
            self.method = str(frame["method"]) if self.verb == "ask" else ""
            self.params: Message = dict(frame.get("params", {}))
            self.meta: Message = dict(frame.get("meta", {}))
            self.wants_progress = frame.get("progress") is True
        except (KeyError, TypeError, ValueError, AttributeError):
            detail = "The process that runs stdio servers does not understand the request; is it of another version?"
            raise UpstreamFault("protocol", detail, sent=False) from None


def _require_one_of(value: Any, *allowed: str) -> str:
    if value not in allowed:
        raise ValueError(value)
    return str(value)


def _build_fault(code: str, detail: str, *, sent: bool, steps: tuple[str, ...] = ()) -> Message:
    return {"fault": {"code": code, "detail": detail, "sent": sent}, "steps": steps}


def _is_same_user(connection: socket.socket) -> bool:
    """Return whether the peer runs under the same account. On systems other than Linux, the file mode ensures it."""
    if not hasattr(socket, "SO_PEERCRED"):
        return True
    size = struct.calcsize("3i")
    _pid, uid, _gid = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
    return bool(uid == os.getuid())
