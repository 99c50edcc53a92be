"""Turns a bearer token into an actor, in the same way for every entry point."""

from dataclasses import dataclass
from typing import NoReturn

from common import context
from common.errors import GatehouseError
from nhi import actors
from nhi.actors import Actor
from nhi.audit import authentication_failures
from nhi.authorization import facts
from nhi.authorization.facts import LoadedFacts
from nhi.credentials import last_used, tokens
from nhi.decisions import engine, types


class Unauthenticated(GatehouseError):
    """The request has no valid credential. `reason` does not reveal whether an unknown token was ever issued."""

    code = "unauthenticated"

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message, details={"reason": reason})
        self.reason = reason


def missing_credential_error(header: str | None) -> Unauthenticated:
    """Return the error for a request without a well-formed token."""
    if header is None:
        return Unauthenticated("no_credential", "Send a credential: Authorization: Bearer nhi_…")
    return Unauthenticated("malformed", "This is not a Gatehouse token, or a part of it is missing.")


@dataclass(frozen=True)
class AuthenticatedActor:
    """The actor of an accepted token, with the facts that were read for the token."""

    actor: Actor
    loaded_facts: LoadedFacts


def authenticate(bearer: str, *, audience: str = "") -> AuthenticatedActor:
    """Return the caller of this token. A malformed token is refused without a database query."""
    token = tokens.parse(bearer)
    if token is None:
        raise missing_credential_error(bearer)
    source = context.current().source
    loaded_facts = facts.for_token(token, source, audience=audience)
    if loaded_facts.user is not None and not loaded_facts.facts.credential_refusal:
        return _authenticate_person(loaded_facts, source)
    decision = engine.decide(loaded_facts.caller, types.RequestedAction("know_itself"), None, loaded_facts.facts)
    if not decision.allowed or loaded_facts.identity is None or loaded_facts.credential is None:
        _refuse_token(loaded_facts, decision.reason, decision.message)
    last_used.record_use(loaded_facts.credential, at=decision.decided_at, source=source)
    actor = actors.identity(
        loaded_facts.identity,
        credential_id=loaded_facts.credential.pk,
        is_narrowed=loaded_facts.is_narrowed,
        run_id=loaded_facts.run_id,
    )
    return AuthenticatedActor(actor, loaded_facts)


def _authenticate_person(loaded_facts: LoadedFacts, source: str) -> AuthenticatedActor:
    assert loaded_facts.user is not None  # checked by the caller
    assert loaded_facts.credential is not None
    last_used.record_use(loaded_facts.credential, at=loaded_facts.facts.decided_at, source=source)
    credential = loaded_facts.credential
    actor = actors.person(
        loaded_facts.user, credential_id=credential.pk, issues_credentials=credential.issues_credentials
    )
    return AuthenticatedActor(actor, loaded_facts)


def _refuse_token(loaded_facts: LoadedFacts, reason: str, message: str) -> NoReturn:
    public_id = (
        loaded_facts.credential.public_id if loaded_facts.credential else authentication_failures.UNKNOWN_PUBLIC_ID
    )
    authentication_failures.count_failure(public_id, reason, loaded_facts.facts.decided_at)
    raise Unauthenticated(reason, message)
