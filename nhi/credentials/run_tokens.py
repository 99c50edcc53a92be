"""The tokens of runs: each run of a supervised agent gets one of its own, which dies with it.

The token is a signed one that names the run, so whatever it calls is logged under the run's id. Behind it stands a row
as behind every token: closing that row is what ends the token at every door.
"""

import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.db.models import Q

from common.fastsql import prepared
from nhi.actors import Actor
from nhi.choices import Kind
from nhi.credentials import credentials, tokens
from nhi.decisions import chains
from nhi.decisions.chains import DelegationChain
from nhi.models import Credential, Identity

DIGEST_LENGTH = 32
RUN_ENDED_REASON = "The run has ended."
#: Until then a token that is still shown is counted under its run's name.
REMOVE_AFTER = timedelta(days=1)
MAX_REMOVED = 1000


@dataclass(frozen=True)
class RunTokenRequest:
    """A run that is to have a token, good for so many seconds at most."""

    identity: Identity
    execution_id: UUID
    seconds: float
    chain: DelegationChain | None = None


def issue_tokens(openings: Sequence[RunTokenRequest], *, actor: Actor, at: datetime) -> dict[UUID, str]:
    """The tokens of runs, by their ids; the rows behind them come and go with the caller's transaction."""
    rows = [_credential_row(opening, actor, at) for opening in openings]
    prepared.insert_rows(*rows)
    return _mint_tokens(rows)


def reissue_tokens(*, execution_ids: Sequence[UUID]) -> dict[UUID, str]:
    """Those that are open of these runs' tokens, for whoever was to have them and did not hear of them."""
    return _mint_tokens(Credential.runs.filter(execution_id__in=execution_ids, revoked_at=None))


def _credential_row(opening: RunTokenRequest, actor: Actor, now: datetime) -> Credential:
    return Credential(
        identity=opening.identity,
        execution_id=opening.execution_id,
        public_id=tokens.make_credential_token(credentials.TOKEN_PREFIXES[Kind(opening.identity.kind)]).public_id,
        # No token has this fingerprint: the row alone lets nobody in.
        digest=secrets.token_bytes(DIGEST_LENGTH),
        created_at=now,
        expires_at=now + timedelta(seconds=opening.seconds),
        created_by_id=actor.id,
        created_by_name=actor.name,
        chain=opening.chain.as_json() if opening.chain is not None else None,
    )


def _mint_tokens(rows: Iterable[Credential]) -> dict[UUID, str]:
    """The same row makes the same token, whenever."""
    made = {}
    for row in rows:
        # As all of a run have.
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
        made[row.execution_id] = tokens.mint_short_token(claims)
    return made


def run_id_of(token: tokens.ParsedBearerToken | None) -> UUID | None:
    """The run whose token this is."""
    return token.execution_id if isinstance(token, tokens.ShortTokenClaims) else None


def load_chain(shown: tokens.ParsedBearerToken | None) -> DelegationChain | None:
    """What stands behind the run whose token was shown; None for everybody else."""
    if not isinstance(shown, tokens.ShortTokenClaims) or shown.execution_id is None:
        return None
    row = Credential.runs.filter(execution_id=shown.execution_id).only("chain").first()
    return (chains.chain_from_json(row.chain) or DelegationChain()) if row is not None else None


def close(*, execution_ids: Sequence[UUID], at: datetime) -> int:
    """End the tokens of these runs; of what was closed before, nothing is changed."""
    ended = {"revoked_at": at, "revoke_reason": RUN_ENDED_REASON}
    still = [
        prepared.ConditionalUpdate(Credential, pk, ended, {"revoked_at": None}, key_column="execution_id")
        for pk in execution_ids
    ]
    return sum(prepared.update_each_if(still))


def remove_old(now: datetime) -> int:
    """Drop what ended long ago, some at a time: the table must not grow with the runs."""
    past = now - REMOVE_AFTER
    over = Credential.runs.filter(Q(revoked_at__lt=past) | Q(expires_at__lt=past))
    oldest = list(over.order_by("expires_at").values_list("pk", flat=True)[:MAX_REMOVED])
    return Credential.runs.filter(pk__in=oldest).delete()[0]


def _milliseconds(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)
