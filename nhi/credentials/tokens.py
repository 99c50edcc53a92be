"""Token format: creates, parses and signs tokens without a database.

A credential is `nhi_<agt|svc|usr>_<public id>_<secret><crc>`; a short-lived token is `nhi_tok_<body>.<signature>`.
"""

import base64
import json
import re
import secrets
import string
import zlib
from dataclasses import asdict, dataclass
from uuid import UUID

from common import crypto

DIGITS = string.digits + string.ascii_uppercase + string.ascii_lowercase
PUBLIC_ID_LENGTH, SECRET_LENGTH, CRC_LENGTH = 16, 40, 6
CREDENTIAL_PATTERN = re.compile(r"nhi_(agt|svc|usr)_([0-9A-Za-z]{16})_([0-9A-Za-z]{40})([0-9A-Za-z]{6})")
SHORT_TOKEN_PATTERN = re.compile(r"nhi_tok_([0-9A-Za-z_-]{20,2000})\.([0-9A-Za-z_-]{43})")
SIGNING_LABEL = "short-token"


@dataclass(frozen=True, repr=False)
class NewCredentialToken:
    """A new token. Only its digest is stored later."""

    token: str
    public_id: str
    digest: bytes


@dataclass(frozen=True, repr=False)
class ParsedCredentialToken:
    """The parts of a well-formed credential token, before its credential is looked up.

    `public_id` finds the credential, and `digest` must equal the stored one. The secret itself is not kept.
    """

    prefix: str
    public_id: str
    digest: bytes


@dataclass(frozen=True)
class ShortTokenClaims:
    """The claims of a short-lived token. Times are milliseconds since the epoch by the database's clock."""

    identity_id: UUID
    credential_id: UUID
    issued: int
    expires: int
    scope: str = ""
    audience: str = ""
    execution_id: UUID | None = None


ParsedBearerToken = ParsedCredentialToken | ShortTokenClaims


def make_credential_token(prefix: str) -> NewCredentialToken:
    public_id, secret = _random_digits(PUBLIC_ID_LENGTH), _random_digits(SECRET_LENGTH)
    body = f"nhi_{prefix}_{public_id}_{secret}"
    token = body + checksum(body)
    return NewCredentialToken(token, public_id, crypto.fingerprint(token))


def parse(token: str) -> ParsedBearerToken | None:
    """Return the content of the token, or None if Gatehouse did not issue it. Pure: no database."""
    if match := CREDENTIAL_PATTERN.fullmatch(token):
        is_intact = crypto.is_equal_in_constant_time(checksum(token[:-CRC_LENGTH]).encode(), match[4].encode())
        return ParsedCredentialToken(match[1], match[2], crypto.fingerprint(token)) if is_intact else None
    if match := SHORT_TOKEN_PATTERN.fullmatch(token):
        return _parse_short_token(match[1], match[2])
    return None


def parse_known(token: str) -> ParsedBearerToken:
    """Parse a token that Gatehouse issued. Raise ValueError for any other text."""
    parsed = parse(token)
    if parsed is None:
        raise ValueError("This is not a token of Gatehouse.")
    return parsed


def mint_short_token(claims: ShortTokenClaims) -> str:
    payload = {
        name: str(value) if isinstance(value, UUID) else value for name, value in asdict(claims).items() if value
    }
    body = _base64(json.dumps(payload, separators=(",", ":")).encode())
    return f"nhi_tok_{body}.{_base64(crypto.sign(SIGNING_LABEL, body.encode()))}"


def checksum(body: str) -> str:
    """Return the CRC32 of the body as six base62 characters: leak scanners can verify a match offline."""
    value, text = zlib.crc32(body.encode()), ""
    for _ in range(CRC_LENGTH):
        value, digit = divmod(value, 62)
        text = DIGITS[digit] + text
    return text


def _parse_short_token(body: str, signature: str) -> ShortTokenClaims | None:
    if not crypto.is_equal_in_constant_time(
        _base64(crypto.sign(SIGNING_LABEL, body.encode())).encode(), signature.encode()
    ):
        return None
    try:
        payload = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
        ids = {
            name: UUID(payload[name]) for name in ("identity_id", "credential_id", "execution_id") if name in payload
        }
        return ShortTokenClaims(**{**payload, **ids})
    except (ValueError, TypeError, AttributeError, RecursionError):
        # The signature is valid, but another version of Gatehouse wrote claims that this version cannot read.
        return None


def _random_digits(length: int) -> str:
    return "".join(secrets.choice(DIGITS) for _ in range(length))


def _base64(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")
