"""The registry of all hosted servers: finds them by id, stops unused ones, closes all."""

import asyncio
import logging
import time
from datetime import UTC, datetime
from uuid import UUID

from mcp.protocol.jsonrpc import Message
from mcp.stdio_host.server import HostContext, HostedServer

log = logging.getLogger(__name__)
SWEEP_SECONDS = 2.0
IDLE_SECONDS = 600.0


class ServerRegistry:
    def __init__(self, context: HostContext) -> None:
        self._context = context
        self._servers: dict[UUID, HostedServer] = {}

    def find(self, server_id: UUID) -> HostedServer:
        if server_id not in self._servers:
            self._servers[server_id] = HostedServer(server_id, self._context)
        return self._servers[server_id]

    async def sweep_forever(self) -> None:
        """Periodically stop servers that were disabled, changed or not used."""
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            active_servers = [server for server in self._servers.values() if server.session]
            await asyncio.gather(*(self._sweep_server(server) for server in active_servers))

    async def _sweep_server(self, server: HostedServer) -> None:
        try:
            await server.stop_if_outdated(await self._context.load_launch(server.id))
            session = server.session
            if session and not session.channel.in_flight and time.monotonic() - session.last_used_at > IDLE_SECONDS:
                await server.stop("The server was not used for a while.")
        except Exception as error:  # database unavailable or secret missing: keep the process running
            log.warning("Server %s was not looked at (%s).", server.id, type(error).__name__)

    async def close(self) -> None:
        await asyncio.gather(*(server.close() for server in self._servers.values()))


def describe_status(server: HostedServer) -> Message:
    """Return a server's state for people. `last_end` and `stderr` may hold secrets, which the caller must redact."""
    session = server.session
    status: Message = {
        "running": session is not None,
        "starts": server.starts,
        "failures": server.crashes,
        "last_end": server.last_end,
        "stderr": server.stderr.lines(),
        "stderr_bytes": server.stderr.total_bytes,
    }
    if session is not None:
        channel = session.channel
        status |= {
            "pid": session.process.pid,
            "since": datetime.fromtimestamp(session.process.started_at, UTC).isoformat(),
            "revision": session.revision,
            "era": session.handshake.era,
            "in_flight": channel.in_flight,
            "noise": channel.invalid_lines,
            "late_answers": channel.late_answers,
            "lists_changed": channel.list_changes,
        }
    return status
