"""The tokens of runs: each run of a supervised agent gets one of its own, which dies with it.

The token is a signed one that names the run, so whatever it calls is logged under the run's id. Behind it stands a row
as behind every token: closing that row is what ends the token at every door.
"""

import secrets
from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import UUID

from django.db.models import Q
from django.db.models.functions import Now

from common import clock, prepared
from nhi import chains, credentials, tokens
from nhi.actors import Actor
from nhi.chains import Chain
from nhi.choices import Kind
from nhi.models import Credential, Identity

DIGEST_LENGTH = 32
ENDED = "The run has ended."
#: Until then a token that is still shown is counted under its run's name.
FORGET_AFTER = timedelta(days=1)
MOST_FORGOTTEN = 1000


def open(  # noqa: A001 - read as run_tokens.open
    *, identity: Identity, execution_id: UUID, seconds: float, actor: Actor, chain: Chain | None = None
) -> str:
    """The token of a run, good for so many seconds at most; its row comes and goes with the caller's transaction."""
    now = clock.database_now()
    ends = now + timedelta(seconds=seconds)
    row = Credential(
        identity=identity,
        execution_id=execution_id,
        public_id=tokens.make(credentials.PREFIXES[Kind(identity.kind)]).public_id,
        # No token has this fingerprint: the row alone lets nobody in.
        digest=secrets.token_bytes(DIGEST_LENGTH),
        created_at=now,
        expires_at=ends,
        created_by_id=actor.id,
        created_by_name=actor.name,
        chain=chain.as_json() if chain is not None else None,
    )
    prepared.insert(row)
    claims = tokens.ParsedToken(
        identity_id=identity.pk,
        credential_id=row.pk,
        issued=_milliseconds(now),
        expires=_milliseconds(ends),
        execution_id=execution_id,
    )
    return tokens.mint(claims)


def chain_behind(shown: tokens.Parsed | None) -> Chain | None:
    """What stands behind the run whose token was shown; None for everybody else."""
    if not isinstance(shown, tokens.ParsedToken) or shown.execution_id is None:
        return None
    row = Credential.runs.filter(execution_id=shown.execution_id).only("chain").first()
    return (chains.read(row.chain) or Chain()) if row is not None else None


def close(*, execution_ids: Sequence[UUID]) -> int:
    """End the tokens of these runs; of what was closed before, nothing is changed."""
    still = Credential.runs.filter(execution_id__in=execution_ids, revoked_at=None)
    return still.update(revoked_at=Now(), revoke_reason=ENDED)


def forget(now: datetime) -> int:
    """Drop what ended long ago, some at a time: the table must not grow with the runs."""
    past = now - FORGET_AFTER
    over = Credential.runs.filter(Q(revoked_at__lt=past) | Q(expires_at__lt=past))
    oldest = list(over.order_by("expires_at").values_list("pk", flat=True)[:MOST_FORGOTTEN])
    return Credential.runs.filter(pk__in=oldest).delete()[0]


def _milliseconds(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)
