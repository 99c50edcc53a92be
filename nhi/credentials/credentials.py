"""Issues, rotates and revokes credentials, and checks a presented one.

REST, the protocol endpoints and `/oauth/token` all check tokens with `parse` and `refusal_reason`.
"""

import ipaddress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import F
from django.db.models.functions import Now

from common import crypto
from common.db import clock
from common.errors import Conflict, NotAllowed
from nhi import validation
from nhi.access import rights
from nhi.actors import Actor
from nhi.audit import events
from nhi.choices import GrantState, Kind, State
from nhi.credentials import tokens
from nhi.models import Credential, Identity, User
from nhi.validation import Problems

TOKEN_PREFIXES = {Kind.AGENT: "agt", Kind.SERVICE_ACCOUNT: "svc"}
MAX_LIVE = 2
ISSUE_RIGHT = "nhi.issue_credential"
MAX_DAYS, DEFAULT_DAYS = 366, 90
MAX_OVERLAP_SECONDS = 30 * 86400

parse = tokens.parse


class TooManyLiveCredentials(Conflict):
    """The holder already has `MAX_LIVE` live credentials."""

    code = "two_live"


class CredentialNotLive(Conflict):
    """The credential has ended and cannot be rotated, or was revoked and cannot be revoked again."""

    code = "not_live"


class PersonalTokenNotAllowed(NotAllowed):
    """The operation is not allowed with a personal token, whatever its owner may do."""

    code = "personal_token"


@dataclass(frozen=True, repr=False)
class IssuedCredential:
    """A credential and its token, which is shown once and not stored."""

    credential: Credential
    token: str
    previous: Credential | None = None


@dataclass(frozen=True)
class CredentialFacts:
    """The stored facts about a public id or a token, from the one query of a decision."""

    digest: bytes | None
    live: bool
    expired: bool
    revoked: bool
    networks: tuple[str, ...] = field(default=())


def refusal_reason(facts: CredentialFacts | None, token: tokens.ParsedBearerToken, source: str, now: datetime) -> str:
    """Return the reason to refuse the token, or an empty string. Pure."""
    if facts is None:
        return "credential_unknown"
    if isinstance(token, tokens.ParsedCredentialToken):
        if facts.digest is None or not crypto.is_equal_in_constant_time(facts.digest, token.digest):
            return "credential_unknown"
    elif token.expires <= now.timestamp() * 1000:
        return "token_expired"
    if facts.revoked:
        return "credential_revoked"
    if facts.expired or not facts.live:
        return "credential_expired"
    return "" if _is_allowed_source(source, facts.networks) else "network_not_allowed"


def issue(
    *,
    actor: Actor,
    holder: Identity | User,
    days: int = DEFAULT_DAYS,
    allowed_networks: list[str] | None = None,
    issues_credentials: bool = False,
) -> IssuedCredential:
    """Issue a credential. At most two are live at a time; two allow a rotation without an outage.

    `issues_credentials` lets a personal token issue and rotate credentials of identities.
    """
    _require_right_to_issue(actor, holder)
    problems = Problems()
    problems.unless(
        not issues_credentials or isinstance(holder, User),
        "issues_credentials",
        "Only a personal token has this right; what an identity may do, its console roles say.",
    )
    problems.unless(1 <= days <= MAX_DAYS, "expires_in_days", f"Use a whole number of days from 1 to {MAX_DAYS}.")
    networks = validation.parse_networks(problems, "allowed_networks", allowed_networks or [])
    with transaction.atomic():
        _check_holder(problems, _lock_holder(holder))
        problems.raise_if_any()
        if _live_credentials(holder).count() >= MAX_LIVE:
            raise TooManyLiveCredentials(f"{holder} has two live credentials. Revoke one first.")
        now = clock.database_now()
        terms = _CredentialTerms(
            now + timedelta(days=days), networks, issues_credentials, now if isinstance(holder, User) else None
        )
        issued = _insert_credential(holder, actor, terms)
        events.write("credential.issued", actor=actor, subject=holder, after=_audit_fields(issued.credential))
    return issued


def rotate(*, actor: Actor, credential: Credential, overlap: int = 86400) -> IssuedCredential:
    """Issue a successor. The old credential works for another `overlap` seconds.

    Rotation does not extend personal tokens for ever: all tokens of one family end `MAX_DAYS` after the first was
    issued.
    """
    holder = _holder_of(credential)
    _require_right_to_issue(actor, holder)
    problems = Problems()
    problems.unless(
        0 <= overlap <= MAX_OVERLAP_SECONDS,
        "overlap_seconds",
        f"Use a whole number of seconds from 0 to {MAX_OVERLAP_SECONDS}.",
    )
    with transaction.atomic():
        _check_holder(problems, _lock_holder(holder))
        problems.raise_if_any()
        now = clock.database_now()
        old = Credential.objects.get(pk=credential.pk)
        if old.state_at(now) != GrantState.LIVE:
            raise CredentialNotLive(f"This credential of {holder} has ended. Issue a new one.")
        if _live_credentials(holder).count() >= MAX_LIVE:
            raise TooManyLiveCredentials(f"{holder} has two live credentials. Revoke one first.")
        ends = min(old.expires_at, now + timedelta(seconds=overlap)) if old.expires_at else now
        Credential.objects.filter(pk=old.pk).update(rotated_at=Now(), expires_at=ends)
        issued = _insert_credential(holder, actor, _successor_terms(old, now))
        previous = Credential.objects.get(pk=old.pk)
        details = {"previous": previous.public_id, "previous_ends": ends.isoformat()}
        events.write(
            "credential.rotated", actor=actor, subject=holder, after=_audit_fields(issued.credential), details=details
        )
    return IssuedCredential(issued.credential, issued.token, previous)


def revoke(*, actor: Actor, credential: Credential, reason: str) -> Credential:
    """Revoke a credential and the short-lived tokens that were issued for it."""
    holder = _holder_of(credential)
    _require_right(actor, holder, "nhi.revoke_credential")
    problems = Problems()
    problems.check_reason(reason)
    problems.raise_if_any()
    with transaction.atomic():
        _lock_holder(holder)  # before the credential: every transaction locks both in this order
        open_rows = Credential.objects.filter(pk=credential.pk, revoked_at=None)
        if not open_rows.update(
            revoked_at=Now(), revoked_by_id=actor.id, revoked_by_name=actor.name, revoke_reason=reason
        ):
            raise CredentialNotLive("This credential was revoked before. Nothing was changed.")
        if isinstance(holder, Identity):
            Identity.objects.filter(pk=holder.pk).update(access_epoch=F("access_epoch") + 1)
        revoked = Credential.objects.select_related("identity", "user").get(pk=credential.pk)
        after = {"public_id": revoked.public_id, "state": "revoked"}
        events.write("credential.revoked", actor=actor, subject=holder, after=after, reason=reason)
    return revoked


def replace(*, actor: Actor, holder: Identity, days: int = DEFAULT_DAYS) -> IssuedCredential:
    """Revoke all live credentials and issue a new one, in one transaction."""
    with transaction.atomic():
        revoke_all(actor=actor, holder=holder, reason="Replaced")
        return issue(actor=actor, holder=holder, days=days)


def revoke_all(*, actor: Actor, holder: Identity | User, reason: str) -> None:
    """Revoke every live credential of the holder, in one transaction."""
    with transaction.atomic():
        _lock_holder(holder)
        for live in _live_credentials(holder):
            revoke(actor=actor, credential=live, reason=reason)


@dataclass(frozen=True)
class _CredentialTerms:
    """What a new credential is issued with: its end, its networks, its right to issue, the start of its family."""

    expires_at: datetime
    allowed_networks: list[str]
    issues_credentials: bool = False
    family_began_at: datetime | None = None


def _successor_terms(old: Credential, now: datetime) -> _CredentialTerms:
    """Return the terms of a successor: the same lifetime, but not beyond the end of a personal token's family."""
    expires_at = now + old.lifetime
    if old.user_id is None:
        return _CredentialTerms(expires_at, old.allowed_networks)
    family_ends = old.family_began + timedelta(days=MAX_DAYS)
    return _CredentialTerms(
        min(expires_at, family_ends), old.allowed_networks, old.issues_credentials, old.family_began
    )


def _insert_credential(holder: Identity | User, actor: Actor, terms: _CredentialTerms) -> IssuedCredential:
    new_token = tokens.make_credential_token(_token_prefix(holder))
    credential = Credential.objects.create(
        identity=holder if isinstance(holder, Identity) else None,
        user=holder if isinstance(holder, User) else None,
        public_id=new_token.public_id,
        digest=new_token.digest,
        expires_at=terms.expires_at,
        allowed_networks=terms.allowed_networks,
        issues_credentials=terms.issues_credentials,
        family_began_at=terms.family_began_at,
        created_by_id=actor.id,
        created_by_name=actor.name,
    )
    return IssuedCredential(credential, new_token.token)


def _require_right_to_issue(actor: Actor, holder: Identity | User) -> None:
    """Require the right to issue. It needs more than revoking: a credential lets its reader act as the holder."""
    if isinstance(holder, User) and actor.by_personal_token:
        raise PersonalTokenNotAllowed(
            "A personal token does not issue or rotate personal tokens. Do it in the console, under My tokens."
        )
    if isinstance(holder, Identity) and not actor.issues_credentials:
        raise PersonalTokenNotAllowed(
            "This personal token was made without the right to issue and rotate credentials of identities. "
            "Make one with it in the console, under My tokens."
        )
    _require_right(actor, holder, ISSUE_RIGHT)
    if isinstance(holder, Identity) and (why_not := rights.why_not_issue(actor, holder)):
        raise NotAllowed(why_not, details={"needs": "nhi.superuser"})


def _require_right(actor: Actor, holder: Identity | User, right: str) -> None:
    if isinstance(holder, Identity):
        if actor.may(right):
            return
        rights.require_to_move(actor, holder)
        if right == ISSUE_RIGHT and holder.console_roles.exists():
            # Its token has the rights of its console roles, which its owner may not have.
            raise NotAllowed(f"{holder.name} holds console roles, so only a security admin makes its credentials.")
    elif actor.id == holder.pk:
        if actor.only_reads:
            raise NotAllowed("You read everything and change nothing, your own tokens included.")
    elif right == ISSUE_RIGHT:
        # With the token of another person, a security admin could approve their own wildcard.
        actor.require("nhi.superuser", "make tokens of other people")
    else:
        actor.require("nhi.change_user", "revoke tokens of other people")


def _check_holder(problems: Problems, holder: Identity | User) -> None:
    if isinstance(holder, User):
        problems.unless(holder.is_active, "user", f"{holder.username} is deactivated.")
        return
    problems.unless(holder.kind in TOKEN_PREFIXES, "identity", "A tool is called; it has no credentials.")
    gone = holder.state in (State.ARCHIVED, State.DEPRECATED)
    problems.unless(not gone, "identity", f"{holder.name} is {State(holder.state).label.lower()}.")


def _lock_holder(holder: Identity | User) -> Identity | User:
    """Lock and reload the holder. The lock makes concurrent issues count the live credentials in turn."""
    rows: Any = Identity.objects if isinstance(holder, Identity) else User.objects
    locked: Identity | User = rows.select_for_update().get(pk=holder.pk)
    return locked


def _live_credentials(holder: Identity | User) -> Any:
    live = Credential.objects.live()
    return live.filter(identity=holder) if isinstance(holder, Identity) else live.filter(user=holder)


def _holder_of(credential: Credential) -> Identity | User:
    holder = credential.identity or credential.user
    assert holder is not None  # a constraint
    return holder


def _token_prefix(holder: Identity | User) -> str:
    return TOKEN_PREFIXES[Kind(holder.kind)] if isinstance(holder, Identity) else "usr"


def _audit_fields(credential: Credential) -> dict[str, Any]:
    assert credential.expires_at is not None  # a constraint
    return {
        "public_id": credential.public_id,
        "expires_at": credential.expires_at.isoformat(),
        "allowed_networks": credential.allowed_networks,
        **({"issues_credentials": True} if credential.issues_credentials else {}),
    }


def _is_allowed_source(source: str, networks: tuple[str, ...]) -> bool:
    if not networks:
        return True
    try:
        address = ipaddress.ip_address(source)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None) or address
    return any(mapped in ipaddress.ip_network(network) for network in networks)
