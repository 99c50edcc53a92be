"""What the headers alone decide, before a byte of the body is read."""

from collections.abc import Callable
from dataclasses import dataclass

from mcp.server import heads
from mcp.server.errors import Refusal, http
from mcp.server.heads import Head

ONLY_POST = (b"allow", b"POST")


@dataclass(frozen=True)
class House:
    """How this installation is reached, and where it says who issues tokens for it."""

    origin: str
    knows_host: Callable[[str], bool]
    resource_metadata: str


def refused(method: str, head: Head, house: House) -> Refusal | None:
    """The first thing wrong with the request as HTTP. Host and Origin first: a page that was rebound learns nothing."""
    if "host" in head.repeated or not house.knows_host(head.get("host")):
        return http(421, "This host name is not one of this server's.")
    if "origin" in head.values and not _is_own(head, house):
        return http(403, "Requests from pages of another origin are refused.")
    if method != "POST":
        return http(405, "Send requests with POST; there is no session and no stream to open.", ONLY_POST)
    return None


def _is_own(head: Head, house: House) -> bool:
    """Whether the page is of this house: at its public address, or at the known host that it sends its request to."""
    scheme = house.origin.partition("://")[0]
    own = {house.origin, f"{scheme}://{head.get('host').lower()}"}
    return "origin" not in head.repeated and head.get("origin").lower() in own


def unfit(head: Head) -> Refusal | None:
    """What the client must be able to take and to send."""
    if not heads.takes_both(head.get("accept")):
        return http(406, f"The Accept header must list {heads.JSON} and {heads.EVENTS}.")
    if "content-type" in head.repeated or not heads.is_json(head.get("content-type")):
        return http(415, f"The body must be sent as {heads.JSON}, in UTF-8.")
    return None


def bearer(head: Head, house: House) -> str | Refusal:
    """The token that is shown; whose it is, and whether it holds, is not known here."""
    header = head.values.get("authorization")
    if header is None:
        return unauthenticated(house, "missing", "Send a token as Authorization: Bearer nhi_….", shown=False)
    scheme, _, token = header.partition(" ")
    if scheme.lower() != "bearer" or not token.strip() or "authorization" in head.repeated:
        return unauthenticated(house, "malformed", "Send one token, as Authorization: Bearer nhi_….")
    return token.strip()


def unauthenticated(house: House, reason: str, message: str, *, shown: bool = True) -> Refusal:
    """RFC 6750, with the way to the metadata of RFC 9728."""
    error = 'error="invalid_token", ' if shown else ""
    challenge = f'Bearer {error}resource_metadata="{house.resource_metadata}"'
    return http(401, message, (b"www-authenticate", challenge.encode()), reason=reason)
