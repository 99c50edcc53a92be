"""Session ids: signed claims, so that every process serves every session without storing it.

A session id is `v1.<payload>.<MAC>`, both in base64url without padding. It does not authenticate its sender: each
request also has a bearer token, whose identity must be the session's.
"""

import base64
import binascii
import hashlib
import re
import secrets
import struct
from dataclasses import dataclass
from uuid import UUID

from common import crypto
from mcp.server.handshake.message_parser import SERVED_VERSIONS

SIGNING_LABEL = "mcp-session"
MAC_BYTES = 16
MAX_SESSION_ID_CHARS = 140
PATTERN = re.compile(r"v1\.([A-Za-z0-9_-]{1,100})\.([A-Za-z0-9_-]{22})")
#: Version, capabilities, time of issue, access epoch, identity, endpoint, random bytes.
PAYLOAD = struct.Struct(">BBQQ16s16s16s")
#: The position of a capability is its bit in the payload.
CAPABILITY_BITS = ("roots", "roots.listChanged", "sampling", "sampling.tools", "elicitation.form", "elicitation.url")


@dataclass(frozen=True)
class SessionClaims:
    """What a session id says about its session."""

    version: str
    capabilities: frozenset[str]
    #: Seconds since the epoch, by the database's clock.
    issued_at: int
    #: The identity's `access_epoch` at that time.
    access_epoch: int
    identity_id: UUID
    endpoint: bytes


def make_endpoint_digest(server: str) -> bytes:
    """Return the digest of an endpoint: of its server's name, or of "" for the endpoint of all servers."""
    return hashlib.sha256(server.encode()).digest()[:16]


def issue(claims: SessionClaims) -> str:
    capability_bits = sum(1 << bit for bit, name in enumerate(CAPABILITY_BITS) if name in claims.capabilities)
    payload = PAYLOAD.pack(
        SERVED_VERSIONS.index(claims.version),
        capability_bits,
        claims.issued_at,
        claims.access_epoch,
        claims.identity_id.bytes,
        claims.endpoint,
        secrets.token_bytes(16),
    )
    return f"v1.{_encode(payload)}.{_encode(_sign(payload))}"


def parse(session_id: str) -> SessionClaims | None:
    """Return the claims of an id, or None if Gatehouse did not issue it."""
    match = PATTERN.fullmatch(session_id) if len(session_id) <= MAX_SESSION_ID_CHARS else None
    if match is None:
        return None
    try:
        payload = base64.urlsafe_b64decode(match[1] + "=" * (-len(match[1]) % 4))
    except binascii.Error:
        return None
    # Both parts must have their canonical encoding: an ended session is remembered by the text of its id.
    expected = f"v1.{_encode(payload)}.{_encode(_sign(payload))}"
    if not crypto.is_equal_in_constant_time(expected.encode(), session_id.encode()) or len(payload) != PAYLOAD.size:
        return None
    version_index, capability_bits, issued_at, access_epoch, identity, endpoint, _ = PAYLOAD.unpack(payload)
    if version_index >= len(SERVED_VERSIONS):
        # Another version of Gatehouse issued the id, for a revision that this one does not serve.
        return None
    capabilities = frozenset(name for bit, name in enumerate(CAPABILITY_BITS) if capability_bits >> bit & 1)
    return SessionClaims(
        SERVED_VERSIONS[version_index], capabilities, issued_at, access_epoch, UUID(bytes=identity), endpoint
    )


def _sign(payload: bytes) -> bytes:
    return crypto.sign(SIGNING_LABEL, payload)[:MAC_BYTES]


def _encode(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")
