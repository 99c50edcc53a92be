"""All servers of this host: found by id, looked after, ended together."""

import asyncio
import logging
import time
from datetime import UTC, datetime
from uuid import UUID

from mcp.protocol.jsonrpc import Message
from mcp.stdio_host.server import Server, Shared

log = logging.getLogger(__name__)
LOOK_EVERY = 2.0
IDLE_SECONDS = 600.0


class Servers:
    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._servers: dict[UUID, Server] = {}

    def find(self, server_id: UUID) -> Server:
        if server_id not in self._servers:
            self._servers[server_id] = Server(server_id, self._shared)
        return self._servers[server_id]

    async def look_after(self) -> None:
        """Stop, for as long as the owner runs, what was disabled, changed or is not used."""
        while True:
            await asyncio.sleep(LOOK_EVERY)
            running = [server for server in self._servers.values() if server.running]
            await asyncio.gather(*(self._look(server) for server in running))

    async def _look(self, server: Server) -> None:
        try:
            await server.look(await self._shared.launches(server.id))
            running = server.running
            if running and not running.channel.in_flight and time.monotonic() - running.used > IDLE_SECONDS:
                await server.end("The server was not used for a while.")
        except Exception as error:  # the database is away, a secret is missing: what runs goes on
            log.warning("Server %s was not looked at (%s).", server.id, type(error).__name__)

    async def close(self) -> None:
        await asyncio.gather(*(server.close() for server in self._servers.values()))


def status(server: Server) -> Message:
    """How it is, for people; its last words may hold secrets and are redacted by who shows them."""
    running = server.running
    told: Message = {
        "running": running is not None,
        "starts": server.starts,
        "failures": server.crashes,
        "last_end": server.last_end,
        "stderr": server.errors.lines(),
        "stderr_bytes": server.errors.bytes_seen,
    }
    if running is not None:
        channel = running.channel
        told |= {
            "pid": running.process.pid,
            "since": datetime.fromtimestamp(running.process.since, UTC).isoformat(),
            "revision": running.revision,
            "era": running.handshake.era,
            "in_flight": channel.in_flight,
            "noise": channel.noise,
            "late_answers": channel.late,
            "lists_changed": channel.changes,
        }
    return told
