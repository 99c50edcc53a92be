"""Who calls: an identity or a person by token, a person by the console's session."""

from dataclasses import dataclass
from typing import Any

from rest_framework.authentication import BaseAuthentication, SessionAuthentication
from rest_framework.exceptions import PermissionDenied
from rest_framework.request import Request

from common.errors import NotAllowed
from nhi import actors
from nhi.actors import Actor
from nhi.authorization import authentication, oauth
from nhi.authorization.facts import LoadedFacts
from nhi.credentials import tokens
from nhi.models import User


@dataclass(frozen=True)
class Caller:
    """`request.user` of every authenticated request."""

    actor: Actor
    #: What the token's query found, and the token; a person at the console shows none.
    loaded: LoadedFacts | None = None
    shown: tokens.ParsedBearerToken | None = None
    #: The person whose session of the console this is; none where a token came.
    session_user: User | None = None

    is_authenticated = True


class CsrfFailed(NotAllowed):
    """A session alone does not prove that its owner sent this."""

    code = "csrf_failed"


class BearerAuthentication(BaseAuthentication):
    """Any `Authorization` header is an attempt with a token: then cookies are not looked at."""

    def authenticate(self, request: Request) -> tuple[Caller, None] | None:
        header = request.META.get("HTTP_AUTHORIZATION")
        if header is None:
            return None
        scheme, _, token = header.strip().partition(" ")
        if scheme.lower() != "bearer":
            raise authentication.missing_credential_error(header)
        found = authentication.authenticate(token.strip(), audience=oauth.rest_resource())
        return Caller(found.actor, found.loaded_facts, tokens.parse(token.strip())), None

    def authenticate_header(self, request: Request) -> str:
        return oauth.challenge(credential_sent="HTTP_AUTHORIZATION" in request.META)


class ConsoleSession(SessionAuthentication):
    """A person who is signed in to the console; unsafe verbs need the CSRF token too."""

    def authenticate(self, request: Request) -> Any:
        found = super().authenticate(request)
        return None if found is None else (Caller(actors.person(found[0]), session_user=found[0]), None)

    def enforce_csrf(self, request: Request) -> None:
        try:
            super().enforce_csrf(request)
        except PermissionDenied as error:
            said = "The CSRF token is missing or wrong: send the cookie's value as X-CSRFToken."
            raise CsrfFailed(said) from error
