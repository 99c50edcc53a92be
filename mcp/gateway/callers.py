"""Authenticates the callers of the MCP endpoints for requests that the batch worker does not decide."""

from dataclasses import dataclass
from datetime import datetime

from nhi.authorization import authentication, oauth
from nhi.authorization.authentication import Unauthenticated
from nhi.models import Identity


@dataclass(frozen=True)
class AuthenticatedCaller:
    """The identity of a token, with the token's scope and the database's time of the check."""

    identity: Identity
    scope: tuple[str, ...]
    at: datetime


def authenticate_caller(bearer: str) -> AuthenticatedCaller:
    """Return the caller of a token for the MCP endpoints. Raise `Unauthenticated` for people, who call no tools."""
    loaded_facts = authentication.authenticate(bearer, audience=oauth.mcp_resource()).loaded_facts
    if loaded_facts.identity is None:
        raise Unauthenticated("identities_only", "Only an identity calls tools; people use the console.")
    scope = tuple(loaded_facts.token.scope.split()) if loaded_facts.token else ()
    return AuthenticatedCaller(loaded_facts.identity, scope, loaded_facts.facts.decided_at)
