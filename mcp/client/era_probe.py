"""Detects the protocol era of a server: first the current era, then the handshake revisions, then HTTP+SSE.

Only answers of the server decide. Network failures, refused credentials and 5xx statuses do not reveal the era.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from mcp_types.jsonrpc import UNSUPPORTED_PROTOCOL_VERSION

from mcp.client.connection import UpstreamConnection, retry_if_closed
from mcp.client.http_exchange import BackgroundTasks, HttpSender
from mcp.client.legacy_connection import LegacyConnection
from mcp.client.modern_connection import ModernConnection
from mcp.client.sse_connection import SseConnection
from mcp.protocol import modern
from mcp.protocol.jsonrpc import Message
from mcp.protocol.legacy import InitializeResult
from mcp.protocol.upstream_errors import UpstreamError, UpstreamFailure, UpstreamFault

#: Statuses with which HTTP+SSE servers answer a POST to the URL of their stream.
NO_POST_STATUSES = frozenset({400, 404, 405})


@dataclass(frozen=True)
class ProbeResult:
    """The connection in the detected era, with the server's answer to the handshake."""

    connection: UpstreamConnection
    protocol_version: str
    server_info: Message
    capabilities: Message
    instructions: str


@dataclass
class EraProbe:
    """One detection of a server's era. `steps` records its requests and their failures."""

    sender: HttpSender
    background_tasks: BackgroundTasks
    handshake_timeout: float
    steps: list[str] = field(default_factory=list)

    async def run(self, *, only_sse: bool = False) -> ProbeResult:
        try:
            return await (self._probe_sse() if only_sse else self._probe_all_eras())
        except UpstreamFailure as failure:
            self.steps.append(_describe_failure(failure))
            failure.steps = tuple(self.steps)
            raise

    async def _probe_all_eras(self) -> ProbeResult:
        result = await self._probe_modern(modern.LATEST)
        if result is not None:
            return result
        try:
            return await self._probe_handshake()
        except UpstreamFailure as failure:
            version = _find_late_modern_version(failure)
            if version and (result := await self._probe_modern(version)) is not None:
                return result
            if failure.status not in NO_POST_STATUSES:
                raise
            self.steps.append(_describe_failure(failure))
            return await self._fall_back_to_sse(failure)

    async def _probe_modern(self, version: str, *, is_retry: bool = False) -> ProbeResult | None:
        """Probe the modern era. Return None if the server does not support it."""
        self.steps.append(f"POST server/discover, {version}")
        connection = ModernConnection(self.sender, self.background_tasks, version=version)
        try:
            result = await retry_if_closed(connection.discover, {})
        except UpstreamFailure as failure:
            mutual = _find_mutual_version(failure)
            self.steps.append(_describe_failure(failure))
            if mutual and not is_retry:
                return await self._probe_modern(mutual, is_retry=True)
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
        return self._build_result(connection, session.initialize_result)

    async def _probe_sse(self) -> ProbeResult:
        self.steps.append("GET event stream, then initialize")
        connection = SseConnection(self.sender, self.background_tasks, handshake_timeout=self.handshake_timeout)
        return self._build_result(connection, await connection.initialize())

    async def _fall_back_to_sse(self, initialize_failure: UpstreamFailure) -> ProbeResult:
        try:
            return await self._probe_sse()
        except UpstreamFailure as failure:
            # The answer to `initialize` is more informative than the missing event stream.
            self.steps.append(_describe_failure(failure))
            raise initialize_failure from None

    def _build_result(self, connection: UpstreamConnection, initialize_result: InitializeResult) -> ProbeResult:
        self.steps.append(f"it speaks {initialize_result.protocol_version}")
        return ProbeResult(
            connection,
            initialize_result.protocol_version,
            initialize_result.server_info,
            initialize_result.capabilities,
            initialize_result.instructions,
        )


def _find_mutual_version(failure: UpstreamFailure) -> str:
    """Return a version to try next, or an empty string if the server is of another era. Otherwise raise the failure."""
    if isinstance(failure, UpstreamFault):
        if failure.code == "protocol" or (failure.code == "http_status" and 400 <= failure.status < 500):
            return ""
        raise failure
    if failure.status >= 500:
        raise failure
    if not isinstance(failure, UpstreamError) or failure.code not in modern.OWN_CODES:
        return ""
    supported = modern.read_supported_versions(failure) if failure.code == UNSUPPORTED_PROTOCOL_VERSION else None
    mutual = modern.mutual_version(supported)
    if not mutual and not modern.includes_handshake_version(supported):
        # The server is of the current era but supports no version in common.
        raise failure
    return mutual


def _find_late_modern_version(failure: UpstreamFailure) -> str:
    """Return the modern version that a refused handshake names.

    A slow server may switch to the modern era on the first probe, answer it too late, and then refuse `initialize`."""
    if isinstance(failure, UpstreamError) and failure.code == UNSUPPORTED_PROTOCOL_VERSION:
        return modern.mutual_version(modern.read_supported_versions(failure))
    return ""


def _describe_failure(failure: UpstreamFailure) -> str:
    if isinstance(failure, UpstreamError):
        return f"it answered with the error {failure.code}: {failure.message[:200]}"
    return failure.detail if isinstance(failure, UpstreamFault) else str(failure)


def _describe_versions(supported: object) -> str:
    names = [str(name)[:20] for name in supported] if isinstance(supported, Iterable) else []
    return ", ".join(names[:10]) or "no version that it names"


def _read_object(result: Message, name: str) -> Message:
    value = result.get(name)
    return value if isinstance(value, dict) else {}


def _read_text(result: Message, name: str) -> str:
    value = result.get(name)
    return value if isinstance(value, str) else ""
