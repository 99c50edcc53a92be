"""Checks of the request headers, made before the body is read."""

from collections.abc import Callable
from dataclasses import dataclass

from mcp.server import heads
from mcp.server.errors import ErrorResponse, http_error
from mcp.server.heads import RequestHeaders

ALLOW_POST_HEADER = (b"allow", b"POST")


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
    if method != "POST":
        return http_error(405, "Send requests with POST; there is no session and no stream to open.", ALLOW_POST_HEADER)
    return None


def _is_own_origin(headers: RequestHeaders, settings: EndpointSettings) -> bool:
    """Whether the origin is the public origin, or the origin of the allowed host that receives the request."""
    scheme = settings.origin.partition("://")[0]
    own_origins = {settings.origin, f"{scheme}://{headers.get('host').lower()}"}
    return "origin" not in headers.repeated and headers.get("origin").lower() in own_origins


def check_content_headers(headers: RequestHeaders) -> ErrorResponse | None:
    """Check the Accept and Content-Type headers."""
    if not heads.accepts_json_and_events(headers.get("accept")):
        return http_error(406, f"The Accept header must list {heads.JSON_TYPE} and {heads.EVENT_STREAM_TYPE}.")
    if "content-type" in headers.repeated or not heads.is_json_content_type(headers.get("content-type")):
        return http_error(415, f"The body must be sent as {heads.JSON_TYPE}, in UTF-8.")
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
