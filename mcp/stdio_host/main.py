"""Runs the stdio host process until SIGTERM or SIGINT: its servers, socket, tool list listener and heartbeat."""

import asyncio
import logging
import signal
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar
from uuid import UUID

from django.db import DatabaseError, connection

from common import egress
from mcp.client import transports
from mcp.client.types import ServerTarget
from mcp.protocol.upstream_errors import UpstreamFault
from mcp.stdio_host import environment, process_groups
from mcp.stdio_host.hosted_servers import HostContext, LaunchSpec, ServerRegistry
from mcp.stdio_host.process_groups import ProcessGroupJournal
from mcp.stdio_host.socket_server import SocketServer
from mcp.stdio_host.tool_list_listener import ChangeDebouncer, HttpChangeListener
from nhi import process_heartbeats
from nhi.models.processes import ProcessKind


@dataclass(frozen=True)
class HostBackend:
    """How the stdio host reaches the database and the task queue. Each function blocks, so it runs in a thread."""

    #: Loads the launch configuration of a server; None if it has none.
    launch: Callable[[UUID], LaunchSpec | None]
    #: Loads the revisions of the enabled HTTP servers, by id.
    revisions: Callable[[], Mapping[UUID, int]]
    #: Loads the connection target of an HTTP server.
    target: Callable[[UUID], ServerTarget]
    #: Queues a refresh of a server's tools, which another process runs.
    refresh: Callable[[UUID], None]


log = logging.getLogger(__name__)
HEARTBEAT_SECONDS = 5.0
#: The lock file in the data directory. Only one host can hold it.
LOCK_NAME = "stdio.lock"
Answer = TypeVar("Answer")


@dataclass
class HostDatabase:
    """Runs database queries in one thread with one connection, so that the event loop never waits for the database."""

    backend: HostBackend
    _thread: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, "database"))

    async def launch(self, server_id: UUID) -> LaunchSpec | None:
        try:
            return await self._run(lambda: self.backend.launch(server_id))
        except DatabaseError as error:
            detail = "The database is away, where it stands what the server runs."
            raise UpstreamFault("unreachable", detail, sent=False) from error

    async def revisions(self) -> Mapping[UUID, int] | None:
        """Return the revisions of the HTTP servers by id, or None if the database is unavailable."""
        try:
            return await self._run(self.backend.revisions)
        except DatabaseError as error:
            log.warning("Which servers there are is not known: the database is away (%s).", type(error).__name__)
            return None

    async def target(self, server_id: UUID) -> ServerTarget:
        return await self._run(lambda: self.backend.target(server_id))

    async def send_heartbeat(self, *, stopping: bool = False) -> None:
        try:
            await self._run(
                lambda: (process_heartbeats.remove_own if stopping else process_heartbeats.record_heartbeat)(
                    kind=ProcessKind.STDIO_OWNER
                )
            )
        except DatabaseError as error:
            log.warning("No heartbeat: the database is away (%s).", type(error).__name__)

    async def _run(self, work: Callable[[], Answer]) -> Answer:
        return await asyncio.get_running_loop().run_in_executor(self._thread, _with_connection, work)


def _with_connection(work: Callable[[], Answer]) -> Answer:
    try:
        return work()
    finally:
        connection.close()


async def run_host(*, data: Path, socket: Path, backend: HostBackend) -> None:
    """Serve until SIGTERM or SIGINT."""
    stop_requested = asyncio.Event()
    for signal_number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(signal_number, stop_requested.set)
    root, installation = data / "stdio", f"{environment.installation_id(data)}"
    root.mkdir(mode=0o700, exist_ok=True)
    journal = ProcessGroupJournal(root / "groups.json")
    if killed := process_groups.kill_processes(f"{installation}/", journal.load_leftovers()):
        log.warning("Ended %s processes that an owner before this one had left.", killed)
    database, debouncer = HostDatabase(backend), ChangeDebouncer(backend.refresh)
    servers = ServerRegistry(HostContext(database.launch, root, installation, journal, debouncer.notify))
    listener = HttpChangeListener(database.revisions, database.target, debouncer)
    socket_server = SocketServer(servers, socket)
    await socket_server.open()
    tasks = [asyncio.create_task(work) for work in (_heartbeat_loop(database), servers.sweep_forever(), listener.run())]
    await stop_requested.wait()
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    await socket_server.close()
    await servers.close()
    await _close_connections(debouncer)
    with suppress(TimeoutError):
        async with asyncio.timeout(1):
            await database.send_heartbeat(stopping=True)


async def _close_connections(debouncer: ChangeDebouncer) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(2):
            await debouncer.close()
            await transports.close_all()
            await egress.close_session()


async def _heartbeat_loop(database: HostDatabase) -> None:
    while True:
        await database.send_heartbeat()
        await asyncio.sleep(HEARTBEAT_SECONDS)
