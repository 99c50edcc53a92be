"""Finding out over two pipes which era a server speaks: the current one is asked for first, then the handshake.

Whatever a server answers to the first question but a yes, an error of any code or nothing at all, sends it the second.
A slow starter may still answer the first one afterwards, or refuse the second because it speaks the current era.
"""

import asyncio
import time
from dataclasses import dataclass, field

from mcp_types.jsonrpc import UNSUPPORTED_PROTOCOL_VERSION

from mcp.client.types import Era, Handshake
from mcp.protocol import jsonrpc, legacy, modern
from mcp.protocol.errors import UpstreamError, UpstreamFault, UpstreamTrouble
from mcp.protocol.jsonrpc import Message
from mcp.stdio_host.rpc_channel import Asked, Channel

#: How long a server may think about the first question before it is asked the second.
PROBE = 5.0
Answer = asyncio.Task[Message]


@dataclass(frozen=True)
class Speech:
    """How to put a request to the server."""

    era: Era
    version: str

    def request(self, number: int, method: str, params: Message, meta: Message) -> Message:
        if self.era == "modern":
            return modern.envelope(number, method, params, version=self.version, meta=meta)
        return jsonrpc.request(number, method, {**params, "_meta": meta} if meta else params)


@dataclass
class Greeting:
    """The first words with a server that has just been started."""

    channel: Channel
    #: It spoke the handshake the last time: the first question would only cost its time.
    handshake_first: bool = False
    steps: list[str] = field(default_factory=list)
    begun: float = field(default_factory=time.monotonic)

    async def run(self) -> Handshake:
        probe = None if self.handshake_first else asyncio.create_task(self._discover())
        hello: Answer | None = None
        try:
            if probe is not None:
                await asyncio.wait({probe}, timeout=PROBE)
                if probe.done() and (found := self._modern(probe)) is not None:
                    return found
                if not probe.done():
                    self.steps.append(f"no answer within {PROBE:g} s")
            hello = asyncio.create_task(self._initialize())
            return await self._whoever_answers(probe, hello)
        except UpstreamTrouble as trouble:
            trouble.steps = tuple(self.steps)
            raise
        finally:
            for task in (probe, hello):
                await _drop(task)

    async def _whoever_answers(self, probe: Answer | None, hello: Answer) -> Handshake:
        while probe is not None and not probe.done() and not hello.done():
            await asyncio.wait({probe, hello}, return_when=asyncio.FIRST_COMPLETED)
            if probe.done() and (found := self._modern(probe)) is not None:
                return found
        try:
            return self._welcomed(await hello)
        except UpstreamError as refused:
            self.steps.append(_said(refused))
            if refused.code != UNSUPPORTED_PROTOCOL_VERSION or not modern.mutual_version(modern.supported_by(refused)):
                raise
            if probe is None or probe.done():
                probe = asyncio.create_task(self._discover())
            found = self._offered(await probe)
            if found is None:
                raise
            return found

    async def _discover(self) -> Message:
        self.steps.append(f"server/discover, {modern.LATEST}")
        return await self.channel.ask(
            lambda number: modern.envelope(number, "server/discover", {}, version=modern.LATEST, meta={}),
            Asked(),
            may_cancel=False,
        )

    async def _initialize(self) -> Message:
        self.steps.append(f"initialize, {legacy.LATEST}")
        return await self.channel.ask(
            lambda number: jsonrpc.request(number, "initialize", legacy.INITIALIZE), Asked(), may_cancel=False
        )

    def _modern(self, probe: Answer) -> Handshake | None:
        """None when the server does not say that it speaks this era, which is no fault of anybody's."""
        try:
            return self._offered(probe.result())
        except UpstreamError as refused:
            self.steps.append(_said(refused))
            self._insist(refused)
        except UpstreamFault as fault:
            self.steps.append(fault.detail)
            if fault.code != "protocol":
                raise
        return None

    def _insist(self, refused: UpstreamError) -> None:
        """Raise again what is the last word of a server of the current era that will not speak it with us."""
        supported = modern.supported_by(refused) if refused.code == UNSUPPORTED_PROTOCOL_VERSION else None
        if supported and not modern.names_a_handshake_version(supported) and not modern.mutual_version(supported):
            raise refused

    def _offered(self, offer: Message) -> Handshake | None:
        version = modern.mutual_version(offer.get("supportedVersions"))
        if not version:
            self.steps.append("it names no version of that era")
            return None
        self.steps.append(f"it speaks {version}")
        return offered(offer, version, begun=self.begun, steps=self.steps)

    def _welcomed(self, answer: Message) -> Handshake:
        welcome = legacy.welcome(answer)
        self.channel.tell(legacy.INITIALIZED)
        self.steps.append(f"it speaks {welcome.protocol_version}")
        return Handshake(
            "legacy",
            welcome.protocol_version,
            welcome.server_info,
            welcome.capabilities,
            welcome.instructions,
            _since(self.begun),
            tuple(self.steps),
        )


def offered(offer: Message, version: str, *, begun: float, steps: list[str]) -> Handshake:
    """What the answer to `server/discover` says."""
    capabilities, instructions = offer.get("capabilities"), offer.get("instructions")
    return Handshake(
        "modern",
        version,
        modern.server_info(offer),
        capabilities if isinstance(capabilities, dict) else {},
        instructions if isinstance(instructions, str) else "",
        _since(begun),
        tuple(steps),
    )


def _since(begun: float) -> float:
    return (time.monotonic() - begun) * 1000


def _said(refused: UpstreamError) -> str:
    return f"it answered with the error {refused.code}: {refused.message[:200]}"


async def _drop(task: Answer | None) -> None:
    """Let go of a question that need not be answered any more, and of what came of it."""
    if task is not None:
        task.cancel()
        await asyncio.wait({task})
        if not task.cancelled():
            task.exception()
