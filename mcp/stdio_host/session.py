"""One server process from start to end, with its RPC channel."""

import asyncio
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from uuid import uuid4

from mcp.client.types import Handshake
from mcp.protocol.jsonrpc import Message
from mcp.protocol.upstream_errors import UpstreamError, UpstreamFault
from mcp.stdio_host import process_groups
from mcp.stdio_host.child_process import ServerProcess
from mcp.stdio_host.environment import build_environment
from mcp.stdio_host.handshake import HandshakeNegotiation, RequestFormat, build_handshake
from mcp.stdio_host.output import StderrBuffer
from mcp.stdio_host.process_channel import PendingRequest, ProcessChannel
from mcp.stdio_host.process_groups import ProcessGroupJournal

#: The first start of a server may have to download it.
START_SECONDS = 60.0
FRESH_SECONDS = 5.0


@dataclass
class ServerSession:
    """One process of a stdio server. A restart is a new session."""

    revision: int
    #: Prefix of the mark in the environment of this process and its descendants.
    mark_prefix: str
    stderr: StderrBuffer
    groups: ProcessGroupJournal
    on_end: Callable[["ServerSession", UpstreamFault], None]
    #: Called when the server announces changed tools.
    on_change: Callable[[], None]
    started_at: float = field(default_factory=time.monotonic)
    last_used_at: float = field(default_factory=time.monotonic)
    handshake: Handshake = field(init=False)
    handshake_at: float = field(init=False)

    def __post_init__(self) -> None:
        self.mark = f"{self.mark_prefix}/{uuid4().hex}"
        self.process = ServerProcess(on_line=self._receive_line, on_end=self._on_process_end, stderr=self.stderr)
        self.channel = ProcessChannel(self.process.write, self.on_change)
        self.end_reason = ""

    async def start(self, argv: list[str], *, env: Mapping[str, str], cwd: Path, handshake_first: bool) -> None:
        try:
            await self.process.start(argv, env=build_environment(env, mark=self.mark), cwd=cwd)
            self.groups.add(self.process.pid)
            async with asyncio.timeout(START_SECONDS):
                self.handshake = await HandshakeNegotiation(self.channel, handshake_first).run()
            self.handshake_at = time.monotonic()
        except UpstreamFault as fault:
            if fault.code != "closed":
                raise
            # The exit code is known in a moment.
            await asyncio.wait({asyncio.create_task(self.process.output_closed.wait())}, timeout=1)
            raise self._with_steps(fault) from None
        except OSError as error:
            # TimeoutError, which asyncio.timeout raises, is an OSError too.
            timed_out = isinstance(error, TimeoutError)
            detail = (
                f"It said nothing for {START_SECONDS:g} s."
                if timed_out
                else f"It could not be started: {error.strerror}."
            )
            raise UpstreamFault("timeout" if timed_out else "unreachable", detail, sent=False) from None

    async def refresh_handshake(self) -> Handshake:
        """Return the handshake of the start if it is fresh; otherwise query the server again."""
        if time.monotonic() - self.handshake_at < FRESH_SECONDS:
            return self.handshake
        started_at = time.monotonic()
        if self.handshake.era == "modern":
            answer = await self.request("server/discover", {}, {}, PendingRequest())
            steps = [f"server/discover, {self.handshake.protocol_version}", "it answered"]
            return build_handshake(answer, self.handshake.protocol_version, started_at=started_at, steps=steps)
        # The legacy era allows one handshake per process. An error is an answer too: some servers do not know `ping`.
        with suppress(UpstreamError):
            await self.request("ping", {}, {}, PendingRequest())
        latency = (time.monotonic() - started_at) * 1000
        return replace(self.handshake, latency_ms=latency, steps=("ping", "it answered"))

    async def request(self, method: str, params: Message, meta: Message, pending_request: PendingRequest) -> Message:
        request_format = RequestFormat(self.handshake.era, self.handshake.protocol_version)

        def build(number: int) -> Message:
            token = {"progressToken": number} if pending_request.on_progress else {}
            return request_format.request(number, method, params, {**meta, **token})

        self.last_used_at = time.monotonic()
        try:
            return await self.channel.request(build, pending_request)
        finally:
            self.last_used_at = time.monotonic()

    async def stop(self, reason: str, *, at_once: bool = False) -> None:
        """Stop the process and all its descendants, including those in other process groups."""
        self.channel.fail(UpstreamFault("closed", reason, sent=True))
        pid = self.process.pid
        await self.process.stop(at_once=at_once)
        await asyncio.to_thread(process_groups.kill_processes, self.mark)
        self.groups.remove(pid)

    def _with_steps(self, fault: UpstreamFault) -> UpstreamFault:
        closed_fault = UpstreamFault("closed", self.end_reason or fault.detail, sent=False)
        closed_fault.steps = fault.steps
        return closed_fault

    def _receive_line(self, line: bytes) -> None:
        self.channel.receive_line(line)

    def _on_process_end(self, fault: UpstreamFault) -> None:
        self.end_reason = fault.detail
        self.channel.fail(fault)
        self.on_end(self, fault)
