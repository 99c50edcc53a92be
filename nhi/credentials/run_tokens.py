"""Tokens of supervised runs: issued for a run and closed with it.

The token is signed and carries the run's id, so every call with it is logged under that id. As for every token, a
credential row exists; closing the row ends the token everywhere.
"""

import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.db.models import Q

from common.fastsql import compiled_queries
from nhi.actors import Actor
from nhi.choices import Kind
from nhi.credentials import credentials, tokens
from nhi.decisions import delegation
from nhi.decisions.delegation import DelegationChain
from nhi.models import Credential, Identity

DIGEST_LENGTH = 32
RUN_ENDED_REASON = "The run has ended."
#: Until its removal, failed authentications with an old token are counted under the public id of its row.
REMOVE_AFTER = timedelta(days=1)
MAX_REMOVED = 1000


@dataclass(frozen=True)
class RunTokenRequest:
    """A request for the token of a run, valid for at most `seconds`."""

    identity: Identity
    execution_id: UUID
    seconds: float
    chain: DelegationChain | None = None


def issue_tokens(requests: Sequence[RunTokenRequest], *, actor: Actor, at: datetime) -> dict[UUID, str]:
    """Insert the credential rows in the caller's transaction and return the tokens by run id."""
    rows = [_credential_row(request, actor, at) for request in requests]
    compiled_queries.insert_rows(*rows)
    return _mint_tokens(rows)


def reissue_tokens(*, execution_ids: Sequence[UUID]) -> dict[UUID, str]:
    """Return the open tokens of these runs again, for a caller that never received them."""
    return _mint_tokens(Credential.runs.filter(execution_id__in=execution_ids, revoked_at=None))


def _credential_row(request: RunTokenRequest, actor: Actor, now: datetime) -> Credential:
    return Credential(
        identity=request.identity,
        execution_id=request.execution_id,
        public_id=tokens.make_credential_token(credentials.TOKEN_PREFIXES[Kind(request.identity.kind)]).public_id,
        # A random digest: no credential token matches this row, only the signed token works.
        digest=secrets.token_bytes(DIGEST_LENGTH),
        created_at=now,
        expires_at=now + timedelta(seconds=request.seconds),
        created_by_id=actor.id,
        created_by_name=actor.name,
        chain=request.chain.as_json() if request.chain is not None else None,
    )


def _mint_tokens(rows: Iterable[Credential]) -> dict[UUID, str]:
    """Return the tokens by run id. The same row always gives the same token."""
    tokens_by_run = {}
    for row in rows:
        # Every row of a run has these.
        assert row.identity_id is not None
        assert row.execution_id is not None
        assert row.expires_at is not None
        claims = tokens.ShortTokenClaims(
            identity_id=row.identity_id,
            credential_id=row.pk,
            issued=_milliseconds(row.created_at),
            expires=_milliseconds(row.expires_at),
            execution_id=row.execution_id,
        )
        tokens_by_run[row.execution_id] = tokens.mint_short_token(claims)
    return tokens_by_run


def run_id_of(token: tokens.ParsedBearerToken | None) -> UUID | None:
    """Return the id of the run that the token belongs to."""
    return token.execution_id if isinstance(token, tokens.ShortTokenClaims) else None


def load_chain(token: tokens.ParsedBearerToken | None) -> DelegationChain | None:
    """Return the delegation chain of the run that the token belongs to, or None for any other token."""
    if not isinstance(token, tokens.ShortTokenClaims) or token.execution_id is None:
        return None
    row = Credential.runs.filter(execution_id=token.execution_id).only("chain").first()
    return (delegation.chain_from_json(row.chain) or DelegationChain()) if row is not None else None


def close(*, execution_ids: Sequence[UUID], at: datetime) -> int:
    """Close the tokens of these runs. Rows that are already closed do not change."""
    changes = {"revoked_at": at, "revoke_reason": RUN_ENDED_REASON}
    updates = [
        compiled_queries.ConditionalUpdate(Credential, pk, changes, {"revoked_at": None}, key_column="execution_id")
        for pk in execution_ids
    ]
    return sum(compiled_queries.update_each_if(updates))


def remove_old(now: datetime) -> int:
    """Delete a batch of rows that ended long ago, so that the table does not grow with the number of runs."""
    cutoff = now - REMOVE_AFTER
    old_rows = Credential.runs.filter(Q(revoked_at__lt=cutoff) | Q(expires_at__lt=cutoff))
    oldest = list(old_rows.order_by("expires_at").values_list("pk", flat=True)[:MAX_REMOVED])
    return Credential.runs.filter(pk__in=oldest).delete()[0]


def _milliseconds(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)
