"""Finding out which era a server speaks: the current one first, then the handshake, then HTTP+SSE.

Only what a server says decides. A network that fails, a refusal of our credentials and a 5xx say nothing about its era.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from mcp_types.jsonrpc import UNSUPPORTED_PROTOCOL_VERSION

from mcp.client.answering import Errands
from mcp.client.connection import Connection, again_if_closed
from mcp.client.http_sse import EventStream
from mcp.client.legacy import Legacy
from mcp.client.modern_connection import Modern
from mcp.client.sending import Sender
from mcp.protocol import modern
from mcp.protocol.errors import UpstreamError, UpstreamFault, UpstreamTrouble
from mcp.protocol.jsonrpc import Message
from mcp.protocol.legacy import Welcome

#: What a server of HTTP+SSE answers to a POST where its stream is.
NO_POST_HERE = frozenset({400, 404, 405})


@dataclass(frozen=True)
class Found:
    connection: Connection
    protocol_version: str
    server_info: Message
    capabilities: Message
    instructions: str


@dataclass
class Probe:
    sender: Sender
    errands: Errands
    handshake_timeout: float
    steps: list[str] = field(default_factory=list)

    async def run(self, *, only_sse: bool = False) -> Found:
        try:
            return await (self._event_stream() if only_sse else self._any())
        except UpstreamTrouble as trouble:
            self.steps.append(_said(trouble))
            trouble.steps = tuple(self.steps)
            raise

    async def _any(self) -> Found:
        found = await self._modern(modern.LATEST)
        if found is not None:
            return found
        try:
            return await self._handshake()
        except UpstreamTrouble as refused:
            again = _modern_after_all(refused)
            if again and (found := await self._modern(again)) is not None:
                return found
            if refused.status not in NO_POST_HERE:
                raise
            self.steps.append(_said(refused))
            return await self._sse_instead(refused)

    async def _modern(self, version: str, *, again: bool = False) -> Found | None:
        """None when the server does not speak this era, which is no fault of anybody's."""
        self.steps.append(f"POST server/discover, {version}")
        connection = Modern(self.sender, self.errands, version=version)
        try:
            result = await again_if_closed(connection.discover, {})
        except UpstreamTrouble as trouble:
            mutual = _verdict(trouble)
            self.steps.append(_said(trouble))
            if mutual and not again:
                return await self._modern(mutual, again=True)
            return None
        mutual = modern.mutual_version(result.get("supportedVersions"))
        self.steps.append(f"it supports {_listed(result.get('supportedVersions'))}")
        if not mutual:
            return None
        connection.version = mutual
        return Found(
            connection,
            mutual,
            modern.server_info(result),
            _object(result, "capabilities"),
            _text(result, "instructions"),
        )

    async def _handshake(self) -> Found:
        self.steps.append("POST initialize")
        connection = Legacy(self.sender, self.errands, handshake_timeout=self.handshake_timeout)
        session = await connection.session()
        return self._welcomed(connection, session.welcome)

    async def _event_stream(self) -> Found:
        self.steps.append("GET event stream, then initialize")
        connection = EventStream(self.sender, self.errands, handshake_timeout=self.handshake_timeout)
        return self._welcomed(connection, await connection.welcome())

    async def _sse_instead(self, refused: UpstreamTrouble) -> Found:
        try:
            return await self._event_stream()
        except UpstreamTrouble as trouble:
            # What it said to initialize tells more than that it has no such stream either.
            self.steps.append(_said(trouble))
            raise refused from None

    def _welcomed(self, connection: Connection, welcome: Welcome) -> Found:
        self.steps.append(f"it speaks {welcome.protocol_version}")
        return Found(
            connection, welcome.protocol_version, welcome.server_info, welcome.capabilities, welcome.instructions
        )


def _verdict(trouble: UpstreamTrouble) -> str:
    """A version to try instead, or nothing for «not this era»; raises where there is no verdict."""
    if isinstance(trouble, UpstreamFault):
        if trouble.code == "protocol" or (trouble.code == "http_status" and 400 <= trouble.status < 500):
            return ""
        raise trouble
    if trouble.status >= 500:
        raise trouble
    if not isinstance(trouble, UpstreamError) or trouble.code not in modern.OWN_CODES:
        return ""
    supported = modern.supported_by(trouble) if trouble.code == UNSUPPORTED_PROTOCOL_VERSION else None
    mutual = modern.mutual_version(supported)
    if not mutual and not modern.names_a_handshake_version(supported):
        # It speaks the current era, and will not speak it with us.
        raise trouble
    return mutual


def _modern_after_all(trouble: UpstreamTrouble) -> str:
    """A slow server may learn its era from a probe that it answers late; then it refuses the handshake so."""
    if isinstance(trouble, UpstreamError) and trouble.code == UNSUPPORTED_PROTOCOL_VERSION:
        return modern.mutual_version(modern.supported_by(trouble))
    return ""


def _said(trouble: UpstreamTrouble) -> str:
    if isinstance(trouble, UpstreamError):
        return f"it answered with the error {trouble.code}: {trouble.message[:200]}"
    return trouble.detail if isinstance(trouble, UpstreamFault) else str(trouble)


def _listed(supported: object) -> str:
    names = [str(name)[:20] for name in supported] if isinstance(supported, Iterable) else []
    return ", ".join(names[:10]) or "no version that it names"


def _object(result: Message, name: str) -> Message:
    value = result.get(name)
    return value if isinstance(value, dict) else {}


def _text(result: Message, name: str) -> str:
    value = result.get(name)
    return value if isinstance(value, str) else ""
