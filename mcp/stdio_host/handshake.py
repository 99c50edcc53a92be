"""Negotiates the protocol era over pipes: first a `server/discover` probe (modern era), then `initialize` (legacy era).

If the probe gets an error of any code or no answer, `initialize` follows. A slow server may still answer the probe
afterwards, or refuse `initialize` because it speaks the modern era.
"""

import asyncio
import time
from dataclasses import dataclass, field

from mcp_types.jsonrpc import UNSUPPORTED_PROTOCOL_VERSION

from mcp.client.types import Era, Handshake
from mcp.protocol import jsonrpc, legacy, modern
from mcp.protocol.jsonrpc import Message
from mcp.protocol.upstream_errors import UpstreamError, UpstreamFailure, UpstreamFault
from mcp.stdio_host.process_channel import PendingRequest, ProcessChannel

#: Time to answer the probe before `initialize` is sent.
PROBE_SECONDS = 5.0
AnswerTask = asyncio.Task[Message]


@dataclass(frozen=True)
class RequestFormat:
    """The era and version in which requests to a server are written."""

    era: Era
    version: str

    def request(self, number: int, method: str, params: Message, meta: Message) -> Message:
        if self.era == "modern":
            return modern.build_request(number, method, params, version=self.version, meta=meta)
        return jsonrpc.request(number, method, {**params, "_meta": meta} if meta else params)


@dataclass
class HandshakeNegotiation:
    """The handshake with a server that has just started."""

    channel: ProcessChannel
    #: Skip the probe, because the server spoke the legacy era the last time.
    handshake_first: bool = False
    steps: list[str] = field(default_factory=list)
    started_at: float = field(default_factory=time.monotonic)

    async def run(self) -> Handshake:
        probe = None if self.handshake_first else asyncio.create_task(self._discover())
        initialize_task: AnswerTask | None = None
        try:
            if probe is not None:
                await asyncio.wait({probe}, timeout=PROBE_SECONDS)
                if probe.done() and (handshake := self._read_discovery(probe)) is not None:
                    return handshake
                if not probe.done():
                    self.steps.append(f"no answer within {PROBE_SECONDS:g} s")
            initialize_task = asyncio.create_task(self._initialize())
            return await self._wait_for_either(probe, initialize_task)
        except UpstreamFailure as failure:
            failure.steps = tuple(self.steps)
            raise
        finally:
            for task in (probe, initialize_task):
                await _cancel_task(task)

    async def _wait_for_either(self, probe: AnswerTask | None, initialize_task: AnswerTask) -> Handshake:
        while probe is not None and not probe.done() and not initialize_task.done():
            await asyncio.wait({probe, initialize_task}, return_when=asyncio.FIRST_COMPLETED)
            if probe.done() and (handshake := self._read_discovery(probe)) is not None:
                return handshake
        try:
            return self._accept_initialize(await initialize_task)
        except UpstreamError as error:
            self.steps.append(_describe_error(error))
            if error.code != UNSUPPORTED_PROTOCOL_VERSION or not modern.mutual_version(
                modern.read_supported_versions(error)
            ):
                raise
            if probe is None or probe.done():
                probe = asyncio.create_task(self._discover())
            handshake = self._accept_discovery(await probe)
            if handshake is None:
                raise
            return handshake

    async def _discover(self) -> Message:
        self.steps.append(f"server/discover, {modern.LATEST}")
        return await self.channel.request(
            lambda number: modern.build_request(number, "server/discover", {}, version=modern.LATEST, meta={}),
            PendingRequest(),
            may_cancel=False,
        )

    async def _initialize(self) -> Message:
        self.steps.append(f"initialize, {legacy.LATEST}")
        return await self.channel.request(
            lambda number: jsonrpc.request(number, "initialize", legacy.INITIALIZE), PendingRequest(), may_cancel=False
        )

    def _read_discovery(self, probe: AnswerTask) -> Handshake | None:
        """Return the handshake, or None if the server does not confirm the modern era, which is not a fault."""
        try:
            return self._accept_discovery(probe.result())
        except UpstreamError as error:
            self.steps.append(_describe_error(error))
            self._raise_if_final(error)
        except UpstreamFault as fault:
            self.steps.append(fault.detail)
            if fault.code != "protocol":
                raise
        return None

    def _raise_if_final(self, error: UpstreamError) -> None:
        """Raise the error of a server that speaks only the modern era, in no version that Gatehouse supports."""
        supported = modern.read_supported_versions(error) if error.code == UNSUPPORTED_PROTOCOL_VERSION else None
        if supported and not modern.includes_handshake_version(supported) and not modern.mutual_version(supported):
            raise error

    def _accept_discovery(self, discovery: Message) -> Handshake | None:
        version = modern.mutual_version(discovery.get("supportedVersions"))
        if not version:
            self.steps.append("it names no version of that era")
            return None
        self.steps.append(f"it speaks {version}")
        return build_handshake(discovery, version, started_at=self.started_at, steps=self.steps)

    def _accept_initialize(self, answer: Message) -> Handshake:
        result = legacy.parse_initialize_result(answer)
        self.channel.notify(legacy.INITIALIZED)
        self.steps.append(f"it speaks {result.protocol_version}")
        return Handshake(
            "legacy",
            result.protocol_version,
            result.server_info,
            result.capabilities,
            result.instructions,
            _elapsed_ms(self.started_at),
            tuple(self.steps),
        )


def build_handshake(discovery: Message, version: str, *, started_at: float, steps: list[str]) -> Handshake:
    """Build the handshake from the answer to `server/discover`."""
    capabilities, instructions = discovery.get("capabilities"), discovery.get("instructions")
    return Handshake(
        "modern",
        version,
        modern.read_server_info(discovery),
        capabilities if isinstance(capabilities, dict) else {},
        instructions if isinstance(instructions, str) else "",
        _elapsed_ms(started_at),
        tuple(steps),
    )


def _elapsed_ms(started_at: float) -> float:
    return (time.monotonic() - started_at) * 1000


def _describe_error(error: UpstreamError) -> str:
    return f"it answered with the error {error.code}: {error.message[:200]}"


async def _cancel_task(task: AnswerTask | None) -> None:
    """Cancel a request that is no longer needed and discard its exception."""
    if task is not None:
        task.cancel()
        await asyncio.wait({task})
        if not task.cancelled():
            task.exception()
