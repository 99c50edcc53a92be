"""Parses request headers and checks them before the body is read."""

import base64
import binascii
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache

from mcp.server.errors import ErrorResponse, http_error

ROUTING_HEADERS = ("mcp-protocol-version", "mcp-method", "mcp-name")
SINGLE_HEADERS = frozenset(
    {*ROUTING_HEADERS, "mcp-session-id", "authorization", "content-type", "host", "origin", "x-request-id"}
)
LIST_HEADERS = frozenset({"accept", "x-forwarded-for"})
KNOWN_HEADERS = {name.encode(): name for name in SINGLE_HEADERS | LIST_HEADERS}
ENCODED_PREFIX, ENCODED_SUFFIX = "=?base64?", "?="
#: The revisions whose clients begin with `initialize`. A client that names another one has no session.
HANDSHAKE_VERSIONS = frozenset({"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"})
EVENT_STREAM_TYPE, JSON_TYPE = "text/event-stream", "application/json"


@dataclass(frozen=True, slots=True)
class RequestHeaders:
    """The headers that Gatehouse reads, by lower-case name.

    `repeated` names the headers that the request may contain only once and contains more often.
    """

    values: dict[str, str]
    repeated: frozenset[str] = frozenset()

    def get(self, name: str) -> str:
        return self.values.get(name, "")

    def matches(self, name: str, value: str) -> bool:
        """Whether the header occurs once and its decoded value equals the value in the body."""
        return name not in self.repeated and decode_value(self.values.get(name)) == value


def read_headers(headers: Iterable[tuple[bytes, bytes]]) -> RequestHeaders:
    values: dict[str, str] = {}
    repeated: set[str] = set()
    for raw_name, value in headers:
        name = KNOWN_HEADERS.get(raw_name) or KNOWN_HEADERS.get(raw_name.lower())
        if name is None:
            continue
        text = value.decode("latin-1").strip(" \t")
        if name not in values:
            values[name] = text
        elif name in LIST_HEADERS:
            values[name] += f", {text}"
        else:
            repeated.add(name)
    return RequestHeaders(values, frozenset(repeated))


def decode_value(value: str | None) -> str | None:
    """Decode a header value. Return None if it is absent or its encoding is invalid."""
    if value is None or not value.startswith(ENCODED_PREFIX) or not value.endswith(ENCODED_SUFFIX):
        return value
    payload = value[len(ENCODED_PREFIX) : -len(ENCODED_SUFFIX)]
    try:
        raw = base64.b64decode(payload, validate=True)
        # Accept only the canonical encoding: spare bits before the padding would give one name several encodings.
        return raw.decode() if base64.b64encode(raw).decode() == payload else None
    except (binascii.Error, ValueError):
        return None


@lru_cache(maxsize=64)
def accepts_json_and_events(accept: str) -> bool:
    """Whether the client accepts both JSON and event streams: the form of the answer is decided during the call."""
    ranges = {_media_type(part) for part in accept.split(",") if not _has_zero_weight(part)}
    return all(
        ranges & {media_type, f"{media_type.partition('/')[0]}/*", "*/*"}
        for media_type in (JSON_TYPE, EVENT_STREAM_TYPE)
    )


@lru_cache(maxsize=64)
def is_json_content_type(content_type: str) -> bool:
    media_type, _, parameters = content_type.partition(";")
    charset = parameters.lower().replace(" ", "").replace('"', "")
    return media_type.strip().lower() == JSON_TYPE and charset in {"", "charset=utf-8"}


def _media_type(part: str) -> str:
    return part.partition(";")[0].strip().lower()


def _has_zero_weight(part: str) -> bool:
    weights = [word.strip().lower() for word in part.split(";")[1:]]
    return any(word.startswith("q=") and not word[2:].strip("0.") for word in weights)


def may_have_session(headers: RequestHeaders) -> bool:
    """Whether the version header names a handshake revision, or is absent."""
    version = headers.values.get("mcp-protocol-version")
    return version is None or version in HANDSHAKE_VERSIONS


@dataclass(frozen=True)
class EndpointSettings:
    """The public origin of the installation, its host check, and the URL of its OAuth resource metadata."""

    origin: str
    is_allowed_host: Callable[[str], bool]
    resource_metadata: str


def check_request(method: str, headers: RequestHeaders, settings: EndpointSettings) -> ErrorResponse | None:
    """Return the first HTTP error of the request. Host and Origin come first, so that DNS rebinding reveals nothing."""
    if "host" in headers.repeated or not settings.is_allowed_host(headers.get("host")):
        return http_error(421, "This host name is not one of this server's.")
    if "origin" in headers.values and not _is_own_origin(headers, settings):
        return http_error(403, "Requests from pages of another origin are refused.")
    has_session = may_have_session(headers)
    if method == "POST" or (method == "DELETE" and has_session):
        return None
    message = "Send requests with POST; there is no stream to open. Only a session can be ended, with DELETE."
    return http_error(405, message, (b"allow", b"POST, DELETE" if has_session else b"POST"))


def _is_own_origin(headers: RequestHeaders, settings: EndpointSettings) -> bool:
    """Whether the origin is the public origin, or the origin of the allowed host that receives the request."""
    scheme = settings.origin.partition("://")[0]
    own_origins = {settings.origin, f"{scheme}://{headers.get('host').lower()}"}
    return "origin" not in headers.repeated and headers.get("origin").lower() in own_origins


def check_content_headers(headers: RequestHeaders) -> ErrorResponse | None:
    """Check the Accept and Content-Type headers."""
    if not accepts_json_and_events(headers.get("accept")):
        return http_error(406, f"The Accept header must list {JSON_TYPE} and {EVENT_STREAM_TYPE}.")
    if "content-type" in headers.repeated or not is_json_content_type(headers.get("content-type")):
        return http_error(415, f"The body must be sent as {JSON_TYPE}, in UTF-8.")
    return None


def read_bearer(headers: RequestHeaders, settings: EndpointSettings) -> str | ErrorResponse:
    """Return the bearer token. Its owner and its validity are checked later."""
    header = headers.values.get("authorization")
    if header is None:
        return unauthenticated_error(
            settings, "missing", "Send a token as Authorization: Bearer nhi_….", has_token=False
        )
    scheme, _, token = header.partition(" ")
    if scheme.lower() != "bearer" or not token.strip() or "authorization" in headers.repeated:
        return unauthenticated_error(settings, "malformed", "Send one token, as Authorization: Bearer nhi_….")
    return token.strip()


def unauthenticated_error(
    settings: EndpointSettings, reason: str, message: str, *, has_token: bool = True
) -> ErrorResponse:
    """Build the 401 of RFC 6750 with the URL of the resource metadata (RFC 9728)."""
    error = 'error="invalid_token", ' if has_token else ""
    challenge = f'Bearer {error}resource_metadata="{settings.resource_metadata}"'
    return http_error(401, message, (b"www-authenticate", challenge.encode()), reason=reason)
