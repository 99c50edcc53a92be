"""Taking runs: state, slot and token of all of them in one transaction, which is committed before anything is started.

Whose answer was lost, with the database, may have been committed all the same: then the runs are this runner's, and
found as such.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from django.db import transaction

from common.db import clock
from nhi import actors
from nhi.credentials import run_tokens
from nhi.credentials.run_tokens import RunTokenRequest
from nhi.decisions.delegation import DelegationChain
from supervisor import chains, slots
from supervisor.choices import ExecutionState
from supervisor.models import Execution

#: Between two tries, at most, with what starting one takes; and behind the last moment that a run may have.
BETWEEN, MARGIN = 40.0, 120.0


@dataclass(frozen=True)
class Claimed:
    run: Execution
    #: What it proves itself with at the gateway, for as long as it may run at all; none where nobody can tell on whose
    #: behalf it acts.
    token: str = field(repr=False)


def claim(*, runner_id: UUID, room: int) -> list[Claimed]:
    waiting = slots.startable(room)
    if not waiting:
        return []
    # All that can be known before: others who ask for runs of these agents wait while they are taken.
    behind, at = chains.behind_each(waiting), clock.database_now()
    with transaction.atomic():
        taken = slots.take(waiting, runner_id=runner_id, at=at)
        openings = [_opening(run, behind[run.pk]) for run in taken if run.pk in behind]
        tokens = run_tokens.issue_tokens(openings, actor=actors.SYSTEM, at=at)
    return _with_tokens(taken, tokens)


def unheard(*, runner_id: UUID, known: Collection[UUID]) -> list[Claimed]:
    """What was claimed for this runner without its hearing of it."""
    mine = Execution.objects.filter(runner_id=runner_id, state=ExecutionState.STARTING).exclude(pk__in=known)
    runs = list(mine.select_related("agent__identity"))
    return _with_tokens(runs, run_tokens.reissue_tokens(execution_ids=[run.pk for run in runs]))


def _opening(run: Execution, chain: DelegationChain) -> RunTokenRequest:
    seconds = (run.timeout + BETWEEN) * (run.max_retries + 1) + MARGIN
    return RunTokenRequest(run.agent.identity, run.pk, seconds, chain)


def _with_tokens(runs: Sequence[Execution], tokens: dict[UUID, str]) -> list[Claimed]:
    return [Claimed(run, tokens.get(run.pk, "")) for run in runs]
