"""Detects the protocol era of a server: first the current era, then the handshake revisions, then HTTP+SSE.

Only answers of the server decide. Network failures, refused credentials and 5xx statuses do not reveal the era.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from mcp_types.jsonrpc import UNSUPPORTED_PROTOCOL_VERSION

from mcp.client.answering import BackgroundTasks
from mcp.client.connection import UpstreamConnection, retry_if_closed
from mcp.client.http_sse import SseConnection
from mcp.client.legacy import LegacyConnection
from mcp.client.modern_connection import ModernConnection
from mcp.client.sending import HttpSender
from mcp.protocol import modern
from mcp.protocol.errors import UpstreamError, UpstreamFailure, UpstreamFault
from mcp.protocol.jsonrpc import Message
from mcp.protocol.legacy import InitializeResult

#: Statuses with which HTTP+SSE servers answer a POST to the URL of their stream.
NO_POST_STATUSES = frozenset({400, 404, 405})


@dataclass(frozen=True)
class ProbeResult:
    connection: UpstreamConnection
    protocol_version: str
    server_info: Message
    capabilities: Message
    instructions: str


@dataclass
class EraProbe:
    sender: HttpSender
    background_tasks: BackgroundTasks
    handshake_timeout: float
    steps: list[str] = field(default_factory=list)

    async def run(self, *, only_sse: bool = False) -> ProbeResult:
        try:
            return await (self._probe_sse() if only_sse else self._probe_all_eras())
        except UpstreamFailure as trouble:
            self.steps.append(_describe_failure(trouble))
            trouble.steps = tuple(self.steps)
            raise

    async def _probe_all_eras(self) -> ProbeResult:
        found = await self._probe_modern(modern.LATEST)
        if found is not None:
            return found
        try:
            return await self._probe_handshake()
        except UpstreamFailure as refused:
            again = _find_late_modern_version(refused)
            if again and (found := await self._probe_modern(again)) is not None:
                return found
            if refused.status not in NO_POST_STATUSES:
                raise
            self.steps.append(_describe_failure(refused))
            return await self._fall_back_to_sse(refused)

    async def _probe_modern(self, version: str, *, again: bool = False) -> ProbeResult | None:
        """Probe the modern era. Return None if the server does not support it."""
        self.steps.append(f"POST server/discover, {version}")
        connection = ModernConnection(self.sender, self.background_tasks, version=version)
        try:
            result = await retry_if_closed(connection.discover, {})
        except UpstreamFailure as trouble:
            mutual = _find_mutual_version(trouble)
            self.steps.append(_describe_failure(trouble))
            if mutual and not again:
                return await self._probe_modern(mutual, again=True)
            return None
        mutual = modern.mutual_version(result.get("supportedVersions"))
        self.steps.append(f"it supports {_describe_versions(result.get('supportedVersions'))}")
        if not mutual:
            return None
        connection.version = mutual
        return ProbeResult(
            connection,
            mutual,
            modern.read_server_info(result),
            _read_object(result, "capabilities"),
            _read_text(result, "instructions"),
        )

    async def _probe_handshake(self) -> ProbeResult:
        self.steps.append("POST initialize")
        connection = LegacyConnection(self.sender, self.background_tasks, handshake_timeout=self.handshake_timeout)
        session = await connection.session()
        return self._build_result(connection, session.welcome)

    async def _probe_sse(self) -> ProbeResult:
        self.steps.append("GET event stream, then initialize")
        connection = SseConnection(self.sender, self.background_tasks, handshake_timeout=self.handshake_timeout)
        return self._build_result(connection, await connection.welcome())

    async def _fall_back_to_sse(self, refused: UpstreamFailure) -> ProbeResult:
        try:
            return await self._probe_sse()
        except UpstreamFailure as trouble:
            # The answer to `initialize` is more informative than the missing event stream.
            self.steps.append(_describe_failure(trouble))
            raise refused from None

    def _build_result(self, connection: UpstreamConnection, welcome: InitializeResult) -> ProbeResult:
        self.steps.append(f"it speaks {welcome.protocol_version}")
        return ProbeResult(
            connection, welcome.protocol_version, welcome.server_info, welcome.capabilities, welcome.instructions
        )


def _find_mutual_version(trouble: UpstreamFailure) -> str:
    """Return a version to try next, or an empty string if the server is of another era. Otherwise raise the failure."""
    if isinstance(trouble, UpstreamFault):
        if trouble.code == "protocol" or (trouble.code == "http_status" and 400 <= trouble.status < 500):
            return ""
        raise trouble
    if trouble.status >= 500:
        raise trouble
    if not isinstance(trouble, UpstreamError) or trouble.code not in modern.OWN_CODES:
        return ""
    supported = modern.read_supported_versions(trouble) if trouble.code == UNSUPPORTED_PROTOCOL_VERSION else None
    mutual = modern.mutual_version(supported)
    if not mutual and not modern.includes_handshake_version(supported):
        # The server is of the current era but supports no version in common.
        raise trouble
    return mutual


def _find_late_modern_version(trouble: UpstreamFailure) -> str:
    """Return the modern version that a refused handshake names.

    A slow server may switch to the modern era on the first probe, answer it too late, and then refuse `initialize`."""
    if isinstance(trouble, UpstreamError) and trouble.code == UNSUPPORTED_PROTOCOL_VERSION:
        return modern.mutual_version(modern.read_supported_versions(trouble))
    return ""


def _describe_failure(trouble: UpstreamFailure) -> str:
    if isinstance(trouble, UpstreamError):
        return f"it answered with the error {trouble.code}: {trouble.message[:200]}"
    return trouble.detail if isinstance(trouble, UpstreamFault) else str(trouble)


def _describe_versions(supported: object) -> str:
    names = [str(name)[:20] for name in supported] if isinstance(supported, Iterable) else []
    return ", ".join(names[:10]) or "no version that it names"


def _read_object(result: Message, name: str) -> Message:
    value = result.get(name)
    return value if isinstance(value, dict) else {}


def _read_text(result: Message, name: str) -> str:
    value = result.get(name)
    return value if isinstance(value, str) else ""
