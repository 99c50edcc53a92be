"""Exchanges a credential for a short-lived token (RFC 6749, 4.4) and describes the protected resources.

A short-lived token is valid for at most 15 minutes.
"""

from dataclasses import dataclass
from datetime import timedelta

from django.conf import settings
from django.db import transaction

from common.db import clock
from common.errors import InvalidInput, NotAllowed
from nhi.audit import authentication_failures, events
from nhi.authorization import authentication
from nhi.authorization.authentication import Unauthenticated
from nhi.credentials import tokens
from nhi.decisions import capabilities

MAX_TOKEN_LIFETIME = timedelta(minutes=15)
MAX_PATTERNS, MAX_SCOPE_LENGTH = 20, 800
REST_PATH = "/api/nhi"
METADATA_PATH = "/.well-known/oauth-protected-resource"
MCP_PATH = "/mcp"
REST_METADATA_PATH, MCP_METADATA_PATH = METADATA_PATH + REST_PATH, METADATA_PATH + MCP_PATH


class InvalidScope(InvalidInput):
    """The `scope` of a token request is too long, or is not a list of capability patterns."""

    code = "invalid_scope"


class InvalidTarget(InvalidInput):
    """The `resource` of a token request names no resource of this installation."""

    code = "invalid_target"


class PersonalTokenNotExchangeable(NotAllowed):
    """Raised for people: a personal token cannot be exchanged."""

    code = "unauthorized_client"


@dataclass(frozen=True, repr=False)
class ExchangedToken:
    """A new short-lived token, its scope and its lifetime in seconds."""

    token: str
    expires_in: int
    scope: str


def challenge(*, credential_sent: bool) -> str:
    """Return the challenge of RFC 6750 with the metadata URL of RFC 9728, and an error for a refused credential."""
    error = 'error="invalid_token", ' if credential_sent else ""
    return f'Bearer {error}resource_metadata="{settings.PUBLIC_URL}{REST_METADATA_PATH}"'


def rest_resource() -> str:
    """The identifier of this API as a protected resource."""
    return f"{settings.PUBLIC_URL}{REST_PATH}"


def mcp_resource() -> str:
    """The identifier of the MCP endpoint, for all its servers."""
    return f"{settings.PUBLIC_URL}{MCP_PATH}"


def exchange(*, client_id: str, secret: str, scope: str = "", resource: str = "") -> ExchangedToken:
    """Authenticate the credential, then issue a token that expires no later than the credential."""
    _require_client_secret(client_id, secret)
    caller = authentication.authenticate(secret)
    credential, identity = caller.loaded_facts.credential, caller.loaded_facts.identity
    if identity is None or credential is None:
        raise PersonalTokenNotExchangeable("A person's token cannot be exchanged; identities exchange theirs.")
    patterns, audience = _parse_scope(scope), _parse_resource(resource)
    # The time of the facts query: a stop that commits later invalidates this token, too.
    issued_at = caller.loaded_facts.facts.decided_at
    assert credential.expires_at is not None  # a constraint
    expires_at = min(issued_at + MAX_TOKEN_LIFETIME, credential.expires_at)
    claims = tokens.ShortTokenClaims(
        identity_id=identity.pk,
        credential_id=credential.pk,
        issued=_milliseconds(issued_at.timestamp()),
        expires=_milliseconds(expires_at.timestamp()),
        scope=patterns,
        audience=audience,
    )
    details = {
        "public_id": credential.public_id,
        "expires_at": expires_at.isoformat(),
        "scope": patterns,
        "resource": audience,
    }
    with transaction.atomic():
        events.write("token.issued", actor=caller.actor, subject=identity, details=details)
    return ExchangedToken(tokens.mint_short_token(claims), int((expires_at - issued_at).total_seconds()), patterns)


def _require_client_secret(client_id: str, secret: str) -> None:
    """Require that the secret is a credential, not a short-lived token, and that it has this client id."""
    token = tokens.parse(secret)
    if isinstance(token, tokens.ParsedCredentialToken) and token.public_id == client_id:
        return
    if token is not None:
        authentication_failures.count_failure(
            authentication_failures.UNKNOWN_PUBLIC_ID, "credential_unknown", clock.database_now()
        )
    raise Unauthenticated("credential_unknown", "The client is not known, or its secret is wrong.")


def _parse_scope(scope: str) -> str:
    patterns = list(dict.fromkeys(scope.split(" "))) if scope else []
    is_within_limits = len(patterns) <= MAX_PATTERNS and len(scope) <= MAX_SCOPE_LENGTH
    if not is_within_limits or not all(capabilities.is_pattern(pattern) for pattern in patterns):
        message = (
            f"A scope is at most {MAX_PATTERNS} capability patterns like github.read or github.*, one space apart."
        )
        raise InvalidScope.for_field("scope", message)
    return " ".join(patterns)


def _parse_resource(resource: str) -> str:
    """Return the token's audience. The root URL does not narrow it; any other resource must be one of ours."""
    identifier = resource.rstrip("/")
    if identifier in {"", settings.PUBLIC_URL}:
        return ""
    if identifier not in {rest_resource(), mcp_resource()}:
        raise InvalidTarget.for_field("resource", "There is no such resource here.")
    return identifier


def _milliseconds(seconds: float) -> int:
    return int(seconds * 1000)
