"""Starts, restarts and stops hosted servers; the registry of all."""

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Protocol
from uuid import UUID

from common.process import executable_allowlist
from common.process.executable_allowlist import ExecutableRefused
from mcp.client.types import Handshake
from mcp.protocol.jsonrpc import Message
from mcp.protocol.upstream_errors import UpstreamFailure, UpstreamFault
from mcp.stdio_host import environment
from mcp.stdio_host.output import StderrBuffer
from mcp.stdio_host.process_channel import PendingRequest
from mcp.stdio_host.process_groups import ProcessGroupJournal
from mcp.stdio_host.session import ServerSession

#: Concurrent calls of one server. Further calls wait for a free place until their deadline.
MAX_IN_FLIGHT = 32
#: The backoff doubles after each crash or failed start, until a process has run for `STEADY_SECONDS`.
FIRST_BACKOFF_SECONDS, MAX_BACKOFF_SECONDS, STEADY_SECONDS = 0.5, 60.0, 60.0
#: A server that is silent for this long after a handshake request counts as hung.
HUNG_SECONDS = 3.0
#: A request waits for a backoff of up to this length; a longer backoff fails the request.
MAX_INLINE_WAIT_SECONDS = 1.0


class LaunchSpec(Protocol):
    """The command and environment of a server's process, in one revision of the configuration."""

    @property
    def argv(self) -> tuple[str, ...]: ...

    @property
    def env(self) -> dict[str, str]: ...

    @property
    def revision(self) -> int: ...

    @property
    def enabled(self) -> bool: ...


class LaunchLoader(Protocol):
    """Loads a server's launch configuration, or None if there is none. A missing secret raises LookupError."""

    async def __call__(self, server_id: UUID) -> LaunchSpec | None: ...


@dataclass(frozen=True)
class HostContext:
    """What all servers of one host share: the launch loader, the directory, the journal and a callback."""

    load_launch: LaunchLoader
    #: The parent of the servers' directories.
    root: Path
    installation: str
    groups: ProcessGroupJournal
    #: Called with the id of a server whose tools may have changed.
    on_change: Callable[[UUID], None]


class HostedServer:
    """A stdio server of this host, across restarts of its process. The next request starts one if none runs."""

    def __init__(self, server_id: UUID, context: HostContext) -> None:
        self.id = server_id
        self.session: ServerSession | None = None
        self.stderr = StderrBuffer()
        self.starts = self.crashes = 0
        self.last_end = ""
        self._context = context
        self._starting: asyncio.Task[ServerSession] | None = None
        self._session_lock = asyncio.Lock()
        self._call_slots = asyncio.Semaphore(MAX_IN_FLIGHT)
        self._background_tasks: set[asyncio.Task[None]] = set()
        #: The last revision in which the server spoke the legacy era, so that the probe can be skipped.
        self._legacy_revision = 0
        self._tried_revision = 0
        self._was_started = False
        self._not_before = 0.0

    async def request(
        self, revision: int, method: str, params: Message, meta: Message, pending_request: PendingRequest
    ) -> Message:
        async with self._call_slots:
            try:
                return await (await self.ensure_session(revision)).request(method, params, meta, pending_request)
            except UpstreamFault as fault:
                if fault.code != "closed" or pending_request.sent:
                    raise
            # The process ended before anything was sent.
            return await (await self.ensure_session(revision)).request(method, params, meta, pending_request)

    async def refresh_handshake(self, revision: int) -> Handshake:
        session, started_at = await self.ensure_session(revision), time.monotonic()
        try:
            return await session.refresh_handshake()
        except asyncio.CancelledError:
            # Work may keep a server silent, but this one has none. The next request starts a new process.
            is_silent = time.monotonic() - started_at > HUNG_SECONDS and session.channel.last_message_at < started_at
            if is_silent and not session.channel.in_flight and self.session is session:
                self._run_in_background(self.stop("The server had stopped answering."))
            raise

    async def ensure_session(self, revision: int) -> ServerSession:
        """Return the session in this revision. Concurrent callers share one start."""
        while True:
            session = self.session
            if session is not None and session.revision == revision and not session.process.is_over:
                return session
            if self._starting is None:
                self._starting = asyncio.create_task(self._start(revision))
                self._starting.add_done_callback(self._on_start_done)
            # A cancelled caller does not cancel the start, which later callers continue to await.
            await asyncio.shield(self._starting)

    async def stop_if_outdated(self, launch: LaunchSpec | None) -> None:
        """Stop the process if the server was disabled or changed."""
        session = self.session
        if session is None:
            return
        if launch is None or not launch.enabled:
            await self.stop("The server was disabled.")
        elif launch.revision != session.revision:
            await self.stop("The server's configuration was changed.")

    async def stop(self, reason: str) -> None:
        async with self._session_lock:
            await self._stop_session(reason)

    async def close(self) -> None:
        """Cancel a pending start and stop the process, at the end of the host."""
        if self._starting is not None:
            self._starting.cancel()
        await self.stop("The process that runs the server was stopped.")
        if self._background_tasks:
            await asyncio.wait(self._background_tasks)

    async def _start(self, revision: int) -> ServerSession:
        async with self._session_lock:
            if self.session is not None and self.session.process.is_over:
                await self.session.process.output_closed.wait()
            launch = await self._load_launch(revision)
            await self._stop_session("The server is started anew.")
            if launch.revision != self._tried_revision:
                self._tried_revision, self.crashes, self._not_before = launch.revision, 0, 0.0
            argv = _resolve_command(launch)
            await self._wait_for_backoff()
            try:
                self.session = await self._start_in_either_era(launch, argv)
            except UpstreamFailure as failure:
                self._count_failure(_failure_detail(failure), lifetime=0)
                raise
            self._legacy_revision = revision if self.session.handshake.era == "legacy" else 0
            if self._was_started:
                # The program may have changed since the last start.
                self._context.on_change(self.id)
            self._was_started = True
            return self.session

    async def _start_in_either_era(self, launch: LaunchSpec, argv: list[str]) -> ServerSession:
        if self._legacy_revision != launch.revision:
            try:
                return await self._start_session(launch, argv, handshake_first=False)
            except UpstreamFault as fault:
                if fault.code != "closed":
                    raise
        # Some servers exit on the first unknown request.
        return await self._start_session(launch, argv, handshake_first=True)

    def _on_start_done(self, task: "asyncio.Task[ServerSession]") -> None:
        self._starting = None
        if not task.cancelled() and task.exception() is not None:
            self._legacy_revision = 0

    async def _load_launch(self, revision: int) -> LaunchSpec:
        try:
            launch = await self._context.load_launch(self.id)
        except LookupError as problem:
            raise UpstreamFault("not_running", str(problem.args[0]), sent=False) from None
        if launch is None or not launch.enabled:
            await self._stop_session("The server was disabled.")
            raise UpstreamFault("not_running", "The server is disabled, or is none that runs here.", sent=False)
        if launch.revision != revision:
            detail = "The server's configuration has changed since the call was decided; call again."
            raise UpstreamFault("not_running", detail, sent=False)
        return launch

    async def _wait_for_backoff(self) -> None:
        wait_seconds = self._not_before - time.monotonic()
        if wait_seconds > MAX_INLINE_WAIT_SECONDS:
            detail = f"{self.last_end} Failures in a row: {self.crashes}; the next start is in {wait_seconds:.0f} s."
            raise UpstreamFault("unreachable", detail, sent=False)
        await asyncio.sleep(max(wait_seconds, 0))

    async def _start_session(self, launch: LaunchSpec, argv: list[str], *, handshake_first: bool) -> ServerSession:
        context = self._context
        mark_prefix = f"{context.installation}/{self.id}"
        on_change = partial(context.on_change, self.id)
        session = ServerSession(
            launch.revision, mark_prefix, self.stderr, context.groups, self._on_session_end, on_change
        )
        self.starts += 1
        directory = environment.server_directory(context.root, self.id)
        try:
            await session.start(argv, env=launch.env, cwd=directory, handshake_first=handshake_first)
        except BaseException:
            await session.stop("The server did not start.", at_once=True)
            raise
        return session

    def _on_session_end(self, session: ServerSession, fault: UpstreamFault) -> None:
        """Handle a process that ended by itself. A failed start is handled by `_start_session`."""
        if self.session is session:
            self.session = None
            self._count_failure(fault.detail, lifetime=time.monotonic() - session.started_at)
            self._run_in_background(session.stop(fault.detail, at_once=True))

    def _count_failure(self, detail: str, *, lifetime: float) -> None:
        self.last_end = detail
        self.crashes = 1 if lifetime > STEADY_SECONDS else self.crashes + 1
        self._not_before = time.monotonic() + min(
            FIRST_BACKOFF_SECONDS * 2 ** min(self.crashes - 1, 10), MAX_BACKOFF_SECONDS
        )

    async def _stop_session(self, reason: str) -> None:
        session, self.session = self.session, None
        if session is not None:
            self.last_end, self.crashes, self._not_before = reason, 0, 0.0
            await session.stop(reason)

    def _run_in_background(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._background_tasks.add(task)
        task.add_done_callback(self._background_tasks.discard)


def _resolve_command(launch: LaunchSpec) -> list[str]:
    """Resolve the command by the current allowlist, which may have become shorter since the server was added."""
    for name in launch.env:
        if problem := executable_allowlist.find_variable_problem(name):
            raise UpstreamFault("not_running", problem, sent=False)
    try:
        return executable_allowlist.resolve_command(launch.argv[0], launch.argv[1:])
    except ExecutableRefused as problem:
        raise UpstreamFault("not_running", str(problem), sent=False) from None


def _failure_detail(failure: UpstreamFailure) -> str:
    return failure.detail if isinstance(failure, UpstreamFault) else f"The server refused to begin: {failure}."


log = logging.getLogger(__name__)
SWEEP_SECONDS = 2.0
IDLE_SECONDS = 600.0


class ServerRegistry:
    """The servers of this host by id. Servers that are not used for a while are stopped."""

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
