"""One process of a server, from its start to its end, with the channel to it."""

import asyncio
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from uuid import uuid4

from mcp.client.types import Handshake
from mcp.protocol.errors import UpstreamError, UpstreamFault
from mcp.protocol.jsonrpc import Message
from mcp.stdio_host import process_groups
from mcp.stdio_host.child_process import Process
from mcp.stdio_host.environment import environment
from mcp.stdio_host.handshake import Greeting, Speech, offered
from mcp.stdio_host.process_groups import Groups
from mcp.stdio_host.ring import Ring
from mcp.stdio_host.rpc_channel import Asked, Channel

#: The first start of a server may have to fetch it.
START_SECONDS = 60.0
JUST_NOW = 5.0


@dataclass
class Running:
    revision: int
    #: Begins the mark of whatever this process starts.
    family: str
    errors: Ring
    groups: Groups
    on_end: Callable[["Running", UpstreamFault], None]
    #: Told when it says that its tools are others.
    on_change: Callable[[], None]
    begun: float = field(default_factory=time.monotonic)
    used: float = field(default_factory=time.monotonic)
    handshake: Handshake = field(init=False)
    greeted: float = field(init=False)

    def __post_init__(self) -> None:
        self.mark = f"{self.family}/{uuid4().hex}"
        self.process = Process(take=self._take, ended=self._ended, errors=self.errors)
        self.channel = Channel(self.process.write, self.on_change)
        self.end = ""

    async def start(self, argv: list[str], *, env: Mapping[str, str], cwd: Path, handshake_first: bool) -> None:
        try:
            await self.process.start(argv, env=environment(env, mark=self.mark), cwd=cwd)
            self.groups.add(self.process.pid)
            async with asyncio.timeout(START_SECONDS):
                self.handshake = await Greeting(self.channel, handshake_first).run()
            self.greeted = time.monotonic()
        except UpstreamFault as fault:
            if fault.code != "closed":
                raise
            # In a moment it is known how it ended.
            await asyncio.wait({asyncio.create_task(self.process.silent.wait())}, timeout=1)
            raise self._with_steps(fault) from None
        except OSError as error:
            # asyncio's own deadline is one of these too.
            late = isinstance(error, TimeoutError)
            detail = (
                f"It said nothing for {START_SECONDS:g} s." if late else f"It could not be started: {error.strerror}."
            )
            raise UpstreamFault("timeout" if late else "unreachable", detail, sent=False) from None

    async def greet(self) -> Handshake:
        """What it said at its start, if that was just now; else what it says now."""
        if time.monotonic() - self.greeted < JUST_NOW:
            return self.handshake
        begun = time.monotonic()
        if self.handshake.era == "modern":
            answer = await self.ask("server/discover", {}, {}, Asked())
            steps = [f"server/discover, {self.handshake.protocol_version}", "it answered"]
            return offered(answer, self.handshake.protocol_version, begun=begun, steps=steps)
        # There is one handshake in its life. An error is an answer too: some do not know the question.
        with suppress(UpstreamError):
            await self.ask("ping", {}, {}, Asked())
        latency = (time.monotonic() - begun) * 1000
        return replace(self.handshake, latency_ms=latency, steps=("ping", "it answered"))

    async def ask(self, method: str, params: Message, meta: Message, asked: Asked) -> Message:
        speech = Speech(self.handshake.era, self.handshake.protocol_version)

        def build(number: int) -> Message:
            token = {"progressToken": number} if asked.told else {}
            return speech.request(number, method, params, {**meta, **token})

        self.used = time.monotonic()
        try:
            return await self.channel.ask(build, asked)
        finally:
            self.used = time.monotonic()

    async def stop(self, reason: str, *, at_once: bool = False) -> None:
        """End it and all that it has started, wherever that has gone."""
        self.channel.fail(UpstreamFault("closed", reason, sent=True))
        pid = self.process.pid
        await self.process.stop(at_once=at_once)
        await asyncio.to_thread(process_groups.end, self.mark)
        self.groups.remove(pid)

    def _with_steps(self, fault: UpstreamFault) -> UpstreamFault:
        told = UpstreamFault("closed", self.end or fault.detail, sent=False)
        told.steps = fault.steps
        return told

    def _take(self, line: bytes) -> None:
        self.channel.take(line)

    def _ended(self, fault: UpstreamFault) -> None:
        self.end = fault.detail
        self.channel.fail(fault)
        self.on_end(self, fault)
