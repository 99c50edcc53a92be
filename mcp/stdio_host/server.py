"""One server: at most one process of it, started when somebody asks, with what the database says at that moment."""

import asyncio
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol
from uuid import UUID

from common.process import executable_allowlist
from common.process.executable_allowlist import ExecutableRefused
from mcp.client.types import Handshake
from mcp.protocol.errors import UpstreamFault, UpstreamTrouble
from mcp.protocol.jsonrpc import Message
from mcp.stdio_host import environment
from mcp.stdio_host.process_groups import Groups
from mcp.stdio_host.ring import Ring
from mcp.stdio_host.rpc_channel import Asked
from mcp.stdio_host.session import Running

#: Calls of one server at once; more wait for a place until their deadline.
MOST_IN_FLIGHT = 32
#: After each end or failed start the next start waits twice as long, until one has lived.
FIRST_WAIT, LONGEST_WAIT, STEADY_AFTER = 0.5, 60.0, 60.0
#: Silence after a greeting that is more than being slow.
HUNG_AFTER = 3.0
#: Waits up to this long are sat out; a longer one is the answer.
SAT_OUT = 1.0


class Launch(Protocol):
    """How a server's process is started, in one revision of its configuration."""

    @property
    def argv(self) -> tuple[str, ...]: ...

    @property
    def env(self) -> dict[str, str]: ...

    @property
    def revision(self) -> int: ...

    @property
    def enabled(self) -> bool: ...


class Launches(Protocol):
    """Reads a server's launch; None when there is none. A secret that is missing is a LookupError that says so."""

    async def __call__(self, server_id: UUID) -> Launch | None: ...


@dataclass(frozen=True)
class Shared:
    """What the servers of an owner have in common."""

    launches: Launches
    #: The directories of servers lie in here.
    root: Path
    installation: str
    groups: Groups
    #: Told of a server whose tools may be others than before.
    changed: Callable[[UUID], None]


class Server:
    def __init__(self, server_id: UUID, shared: Shared) -> None:
        self.id = server_id
        self.running: Running | None = None
        self.errors = Ring()
        self.starts = self.crashes = 0
        self.last_end = ""
        self._shared = shared
        self._starting: asyncio.Task[Running] | None = None
        self._changing = asyncio.Lock()
        self._places = asyncio.Semaphore(MOST_IN_FLIGHT)
        self._ends: set[asyncio.Task[None]] = set()
        #: The revision in which it last spoke the handshake: the other question would only cost time.
        self._speaks_handshake = 0
        self._tried = 0
        self._met = False
        self._not_before = 0.0

    async def ask(self, revision: int, method: str, params: Message, meta: Message, asked: Asked) -> Message:
        async with self._places:
            try:
                return await (await self.ready(revision)).ask(method, params, meta, asked)
            except UpstreamFault as fault:
                if fault.code != "closed" or asked.sent:
                    raise
            # It ended just then, and nothing was sent.
            return await (await self.ready(revision)).ask(method, params, meta, asked)

    async def greet(self, revision: int) -> Handshake:
        running, begun = await self.ready(revision), time.monotonic()
        try:
            return await running.greet()
        except asyncio.CancelledError:
            # Work may keep a server silent, but it has none; whoever asks next gets a new one.
            silent = time.monotonic() - begun > HUNG_AFTER and running.channel.heard < begun
            if silent and not running.channel.in_flight and self.running is running:
                self._later(self.end("The server had stopped answering."))
            raise

    async def ready(self, revision: int) -> Running:
        """Its process in this revision. However many ask, one start answers all of them."""
        while True:
            running = self.running
            if running is not None and running.revision == revision and not running.process.over:
                return running
            if self._starting is None:
                self._starting = asyncio.create_task(self._start(revision))
                self._starting.add_done_callback(self._started)
            # Who stops waiting does not stop the start: who asks next finds it further on.
            await asyncio.shield(self._starting)

    async def look(self, launch: Launch | None) -> None:
        """Stop what the database no longer wants as it runs."""
        running = self.running
        if running is None:
            return
        if launch is None or not launch.enabled:
            await self.end("The server was disabled.")
        elif launch.revision != running.revision:
            await self.end("The server's configuration was changed.")

    async def end(self, reason: str) -> None:
        async with self._changing:
            await self._end(reason)

    async def close(self) -> None:
        """The owner ends: let nothing start any more, and leave nothing."""
        if self._starting is not None:
            self._starting.cancel()
        await self.end("The process that runs the server was stopped.")
        if self._ends:
            await asyncio.wait(self._ends)

    async def _start(self, revision: int) -> Running:
        async with self._changing:
            if self.running is not None and self.running.process.over:
                await self.running.process.silent.wait()
            launch = await self._launch(revision)
            await self._end("The server is started anew.")
            if launch.revision != self._tried:
                self._tried, self.crashes, self._not_before = launch.revision, 0, 0.0
            argv = _command(launch)
            await self._take_turn()
            try:
                self.running = await self._either_way(launch, argv)
            except UpstreamTrouble as trouble:
                self._count(_detail(trouble), lived=0)
                raise
            self._speaks_handshake = revision if self.running.handshake.era == "legacy" else 0
            if self._met:
                # Its program may be another by now.
                self._shared.changed(self.id)
            self._met = True
            return self.running

    async def _either_way(self, launch: Launch, argv: list[str]) -> Running:
        if self._speaks_handshake != launch.revision:
            try:
                return await self._begin(launch, argv, handshake_first=False)
            except UpstreamFault as fault:
                if fault.code != "closed":
                    raise
        # Some servers leave at the first word they do not know.
        return await self._begin(launch, argv, handshake_first=True)

    def _started(self, task: "asyncio.Task[Running]") -> None:
        self._starting = None
        if not task.cancelled() and task.exception() is not None:
            self._speaks_handshake = 0

    async def _launch(self, revision: int) -> Launch:
        try:
            launch = await self._shared.launches(self.id)
        except LookupError as problem:
            raise UpstreamFault("not_running", str(problem.args[0]), sent=False) from None
        if launch is None or not launch.enabled:
            await self._end("The server was disabled.")
            raise UpstreamFault("not_running", "The server is disabled, or is none that runs here.", sent=False)
        if launch.revision != revision:
            detail = "The server's configuration has changed since the call was decided; call again."
            raise UpstreamFault("not_running", detail, sent=False)
        return launch

    async def _take_turn(self) -> None:
        left = self._not_before - time.monotonic()
        if left > SAT_OUT:
            detail = f"{self.last_end} Failures in a row: {self.crashes}; the next start is in {left:.0f} s."
            raise UpstreamFault("unreachable", detail, sent=False)
        await asyncio.sleep(max(left, 0))

    async def _begin(self, launch: Launch, argv: list[str], *, handshake_first: bool) -> Running:
        shared = self._shared
        family = f"{shared.installation}/{self.id}"
        changed = partial(shared.changed, self.id)
        running = Running(launch.revision, family, self.errors, shared.groups, self._ended, changed)
        self.starts += 1
        place = environment.directory(shared.root, self.id)
        try:
            await running.start(argv, env=launch.env, cwd=place, handshake_first=handshake_first)
        except BaseException:
            await running.stop("The server did not start.", at_once=True)
            raise
        return running

    def _ended(self, running: Running, fault: UpstreamFault) -> None:
        """Its process has ended by itself. What becomes of one that never got to speak is for who started it."""
        if self.running is running:
            self.running = None
            self._count(fault.detail, lived=time.monotonic() - running.begun)
            self._later(running.stop(fault.detail, at_once=True))

    def _count(self, detail: str, *, lived: float) -> None:
        self.last_end = detail
        self.crashes = 1 if lived > STEADY_AFTER else self.crashes + 1
        self._not_before = time.monotonic() + min(FIRST_WAIT * 2 ** min(self.crashes - 1, 10), LONGEST_WAIT)

    async def _end(self, reason: str) -> None:
        running, self.running = self.running, None
        if running is not None:
            self.last_end, self.crashes, self._not_before = reason, 0, 0.0
            await running.stop(reason)

    def _later(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._ends.add(task)
        task.add_done_callback(self._ends.discard)


def _command(launch: Launch) -> list[str]:
    """What is started, by the list of today: it may have been shortened since the server was set up."""
    for name in launch.env:
        if problem := executable_allowlist.find_variable_problem(name):
            raise UpstreamFault("not_running", problem, sent=False)
    try:
        return executable_allowlist.resolve_command(launch.argv[0], launch.argv[1:])
    except ExecutableRefused as problem:
        raise UpstreamFault("not_running", str(problem), sent=False) from None


def _detail(trouble: UpstreamTrouble) -> str:
    return trouble.detail if isinstance(trouble, UpstreamFault) else f"The server refused to begin: {trouble}."
