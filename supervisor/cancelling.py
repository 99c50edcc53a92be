"""Stopping runs: those that wait end at once, the others when the worker that holds them has ended their processes."""

from collections.abc import Collection, Sequence
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import Q, QuerySet
from django.db.models.functions import Now

from common.db import clock
from common.errors import Conflict, NotAllowed
from nhi.actors import SYSTEM, Actor
from nhi.audit import events
from nhi.choices import State
from nhi.hooks import StopStep, StopStepResult
from nhi.identities import lifecycle as identities
from nhi.models import Identity
from nhi.validation import Problems
from supervisor import lifecycle, waking
from supervisor.choices import ExecutionState
from supervisor.models import Execution

#: Seconds between asking processes to end and ending them: of a cancel, and of the kill switch.
GRACE, SHORT_GRACE = 5.0, 2.0
RIGHT = "supervisor.cancel_execution"
LONGEST_REASON = 500


def cancel(*, actor: Actor, execution: Execution, reason: str) -> Execution:
    """Ask for the end of a run; the second time there is nothing left to ask for."""
    require(actor, execution)
    problems = Problems()
    problems.check_reason(reason)
    problems.raise_if_any()
    with transaction.atomic():
        current = Execution.objects.select_for_update(of=("self",)).select_related("agent").get(pk=execution.pk)
        if current.status is not None:
            raise Conflict(
                f"{current} is {ExecutionState(current.outcome).label.lower()} already. Nothing was changed."
            )
        if current.cancel_requested_at is not None:
            raise Conflict(f"{current} is being stopped already, as {current.cancelled_by_name} asked.")
        _end(current, actor, reason)
        events.write("run.cancelled", actor=actor, subject=current, reason=reason)
    waking.wake()
    return current


def _end(run: Execution, actor: Actor, reason: str) -> None:
    """One statement for the row: after a second one PostgreSQL looks at the agent's too, which who claims it holds."""
    if run.state == ExecutionState.QUEUED:
        asked: dict[str, Any] = {
            "cancel_requested_at": clock.database_now(),
            "cancelled_by_name": actor.name,
            "cancel_reason": reason,
        }
        said = f"{actor.name}: {reason}"
        lifecycle.walk(run, lifecycle.to_the_end(ExecutionState.CANCELLED, said), **asked)
    else:
        _request(Execution.objects.filter(pk=run.pk), actor.name, reason, GRACE)
        run.refresh_from_db()


def may_cancel(actor: Actor, execution: Execution) -> bool:
    if actor.only_reads:
        return False
    if actor.may(RIGHT) or (actor.id is not None and actor.id in (execution.started_by_id, execution.identity_id)):
        return True
    return Identity.objects.managed_by(actor).filter(pk=execution.identity_id).exists()


def within_reach(actor: Actor, rows: QuerySet[Execution]) -> QuerySet[Execution]:
    """Those that `may_cancel` allows, of many by one condition."""
    if actor.only_reads:
        return rows.none()
    if actor.may(RIGHT):
        return rows
    own = Q(started_by_id=actor.id) | Q(identity_id=actor.id)
    return rows.filter(own | Q(identity_id__in=Identity.objects.managed_by(actor).values("pk")))


def among(actor: Actor, runs: Collection[Execution]) -> set[UUID]:
    """Which of these may be cancelled."""
    if actor.may(RIGHT) and not actor.only_reads:
        return {run.pk for run in runs}
    asked = Execution.objects.filter(pk__in=[run.pk for run in runs])
    return set(within_reach(actor, asked).values_list("pk", flat=True))


def require(actor: Actor, execution: Execution) -> None:
    if not may_cancel(actor, execution):
        raise NotAllowed(f"You may not stop {execution}.", details={"needs": RIGHT})


def count(identities: Sequence[Identity]) -> int:
    return _of(identities).count()


def unstarted(identities: Sequence[Identity]) -> int:
    return _of(identities).filter(state=ExecutionState.QUEUED).count()


def stop(identity: Identity) -> StopStepResult:
    """The supervisor's part of the kill switch: whatever waits or runs as this identity."""
    why = stopped(identity)
    asked = set(_of([identity]).exclude(cancel_requested_at=None).values_list("pk", flat=True))
    # First, and of all: what a worker is claiming just now is held back by this until it is claimed, and marked then.
    found = _request(_of([identity]), identity.state_by, why, SHORT_GRACE)
    marked = _of([identity]).exclude(cancel_requested_at=None).only("agent_name", "number")
    _record([run for run in marked if run.pk not in asked], identity)
    waiting = list(Execution.objects.queued().filter(identity_id=identity.pk))
    for run in waiting:
        lifecycle.walk(run, lifecycle.to_the_end(ExecutionState.CANCELLED, f"{identity.state_by}: {why}"))
    if _of([identity]).exists():
        waking.wake()
    return StopStepResult(found, unstarted=min(found, len(waiting)))


def stopped(identity: Identity) -> str:
    """`deploy-bot was suspended: leaked token`."""
    said = f"{identity.name} was {identities.STATE_VERBS[State(identity.state)]}"
    return f"{said}: {identity.state_reason}"[:LONGEST_REASON] if identity.state_reason else f"{said}."


def _record(runs: Sequence[Execution], identity: Identity) -> None:
    """One event each, as people's own stops have. Who stopped the identity has the event of that, and is named."""
    why = identities.why_inactive(identity)
    for run in runs:
        details = {"identity": str(identity.pk), "stopped_by": identity.state_by}
        events.write("run.cancelled", actor=SYSTEM, subject=run, reason=why, details=details)


def _of(identities: Sequence[Identity]) -> QuerySet[Execution]:
    return Execution.objects.open().filter(identity_id__in=[identity.pk for identity in identities])


def _request(rows: QuerySet[Execution], who: str, reason: str, grace: float) -> int:
    """Who asked first is kept; a shorter grace counts."""
    rows.filter(Q(cancel_requested_at__isnull=False), cancel_grace__gt=grace).update(cancel_grace=grace)
    return rows.filter(cancel_requested_at=None).update(
        cancel_requested_at=Now(), cancelled_by_name=who, cancel_reason=reason, cancel_grace=grace
    )


STEP = StopStep("executions", stop, count, unstarted=unstarted)
