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


def check_request(method: str, head: RequestHeaders, house: EndpointSettings) -> ErrorResponse | None:
    """Return the first HTTP error of the request. Host and Origin come first, so that DNS rebinding reveals nothing."""
    if "host" in head.repeated or not house.is_allowed_host(head.get("host")):
        return http_error(421, "This host name is not one of this server's.")
    if "origin" in head.values and not _is_own_origin(head, house):
        return http_error(403, "Requests from pages of another origin are refused.")
    if method != "POST":
        return http_error(405, "Send requests with POST; there is no session and no stream to open.", ALLOW_POST_HEADER)
    return None


def _is_own_origin(head: RequestHeaders, house: EndpointSettings) -> bool:
    """Whether the origin is the public origin, or the origin of the allowed host that receives the request."""
    scheme = house.origin.partition("://")[0]
    own = {house.origin, f"{scheme}://{head.get('host').lower()}"}
    return "origin" not in head.repeated and head.get("origin").lower() in own


def check_content_headers(head: RequestHeaders) -> ErrorResponse | None:
    """Check the Accept and Content-Type headers."""
    if not heads.accepts_json_and_events(head.get("accept")):
        return http_error(406, f"The Accept header must list {heads.JSON_TYPE} and {heads.EVENT_STREAM_TYPE}.")
    if "content-type" in head.repeated or not heads.is_json_content_type(head.get("content-type")):
        return http_error(415, f"The body must be sent as {heads.JSON_TYPE}, in UTF-8.")
    return None


def read_bearer(head: RequestHeaders, house: EndpointSettings) -> str | ErrorResponse:
    """Return the bearer token. Its owner and its validity are checked later."""
    header = head.values.get("authorization")
    if header is None:
        return unauthenticated_error(house, "missing", "Send a token as Authorization: Bearer nhi_….", shown=False)
    scheme, _, token = header.partition(" ")
    if scheme.lower() != "bearer" or not token.strip() or "authorization" in head.repeated:
        return unauthenticated_error(house, "malformed", "Send one token, as Authorization: Bearer nhi_….")
    return token.strip()


def unauthenticated_error(house: EndpointSettings, reason: str, message: str, *, shown: bool = True) -> ErrorResponse:
    """Build the 401 of RFC 6750 with the URL of the resource metadata (RFC 9728)."""
    error = 'error="invalid_token", ' if shown else ""
    challenge = f'Bearer {error}resource_metadata="{house.resource_metadata}"'
    return http_error(401, message, (b"www-authenticate", challenge.encode()), reason=reason)
