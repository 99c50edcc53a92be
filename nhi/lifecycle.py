"""The one place that moves an identity from state to state, and the kill switch."""

import logging
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field

from django.db import connection, transaction
from django.db.models import F
from django.db.models.functions import Now

from common.errors import InvalidTransition
from nhi import access, registry, rights
from nhi.actors import SYSTEM, Actor
from nhi.choices import TRANSITIONS, State
from nhi.inputs import Problems
from nhi.models import Credential, Identity
from nhi.record import events

log = logging.getLogger(__name__)

STEP_SECONDS = 3.0
VERBS: dict[State, str] = {
    State.ACTIVE: "activated",
    State.INACTIVE: "deactivated",
    State.SUSPENDED: "suspended",
    State.DEPRECATED: "deprecated",
    State.ARCHIVED: "archived",
}
#: What a stop may end, each in the reply whether or not there was any.
STOPPABLE = ("tokens", "calls", "tasks", "schedules", "executions")


@dataclass(frozen=True)
class Stopped:
    """What a stop ended, and the names of the steps that the sweeper still has to finish."""

    identity: Identity
    stopped: dict[str, int] = field(default_factory=dict)
    pending: list[str] = field(default_factory=list)


def activate(*, actor: Actor, identity: Identity, reason: str) -> Identity:
    return move(actor=actor, identity=identity, to=State.ACTIVE, reason=reason)


def deactivate(*, actor: Actor, identity: Identity, reason: str) -> Identity:
    return move(actor=actor, identity=identity, to=State.INACTIVE, reason=reason)


def deprecate(*, actor: Actor, identity: Identity, reason: str) -> Identity:
    return move(actor=actor, identity=identity, to=State.DEPRECATED, reason=reason)


def suspend(*, actor: Actor, identity: Identity, reason: str) -> Stopped:
    """The kill switch: access ends in one commit of its own, then everything that runs is stopped."""
    moved = move(actor=actor, identity=identity, to=State.SUSPENDED, reason=reason)
    return _stop(moved)


def archive(*, actor: Actor, identity: Identity, reason: str) -> Stopped:
    """The end: access, credentials, grants of all three kinds and role assignments go in one commit."""
    tokens = Credential.objects.live().filter(identity=identity).count()
    with transaction.atomic():
        moved = move(actor=actor, identity=identity, to=State.ARCHIVED, reason=reason)
        access.end_all(actor=actor, identity=moved, reason=f"Archived: {reason}")
    return _stop(moved, tokens=tokens)


def move(*, actor: Actor, identity: Identity, to: State, reason: str) -> Identity:
    """Compare and swap: the move happens from the state that `identity` was read in, or not at all."""
    rights.require_to_move(actor, identity)
    problems = Problems()
    problems.reason(reason)
    problems.settle()
    old = State(identity.state)
    if to not in TRANSITIONS[old]:
        raise _illegal(identity, to)
    with transaction.atomic():
        if not _swap(identity, old, to, actor, reason):
            raise _illegal(Identity.objects.get(pk=identity.pk), to)
        moved = Identity.objects.select_related("owner", "backup_owner").get(pk=identity.pk)
        events.write(
            f"identity.{VERBS[to]}",
            actor=actor,
            subject=moved,
            before={"state": old},
            after={"state": to},
            reason=reason,
        )
    return moved


def consequences(identity: Identity) -> dict[str, int]:
    """What a stop would end now, for the dialog that says so before it happens."""
    counts = dict.fromkeys(STOPPABLE, 0)
    counts["tokens"] = Credential.objects.live().filter(identity=identity).count()
    return counts | {step.name: step.count(identity) for step in registry.stop_steps.values()}


def finish_stops() -> int:
    """The sweeper's part: run again what a stop could not finish at once."""
    done = 0
    for identity in Identity.objects.exclude(stop_pending=[]):
        left = _stop(identity).pending
        if not left:
            events.write(
                "identity.stop_finished", actor=SYSTEM, subject=identity, details={"steps": identity.stop_pending}
            )
            done += 1
    return done


def _swap(identity: Identity, old: State, to: State, actor: Actor, reason: str) -> bool:
    ends = {} if to == State.ACTIVE else {"access_epoch": F("access_epoch") + 1, "tokens_from": Now()}
    rows = Identity.objects.filter(pk=identity.pk, state=old).update(
        state=to, state_since=Now(), state_reason=reason, state_by=actor.name, updated_at=Now(), **ends
    )
    return rows == 1


def _illegal(identity: Identity, to: State) -> InvalidTransition:
    current = State(identity.state)
    return InvalidTransition(
        f"{identity.name} is {current.label.lower()} and cannot become {to.label.lower()}. Nothing was changed.",
        details={"state": current, "allowed": sorted(TRANSITIONS[current])},
    )


def _stop(identity: Identity, *, tokens: int | None = None) -> Stopped:
    """Run every stop step in a transaction of its own; a slow or failing one is left to the sweeper."""
    counts = dict.fromkeys(STOPPABLE, 0)
    counts["tokens"] = Credential.objects.live().filter(identity=identity).count() if tokens is None else tokens
    if not registry.stop_steps:
        return Stopped(identity, counts)
    # Noted before the first step: when this process dies in the middle, the sweeper still knows.
    names = list(registry.stop_steps)
    Identity.objects.filter(pk=identity.pk).update(stop_pending=names)
    pool = ThreadPoolExecutor(max_workers=len(names), thread_name_prefix="stop")
    running = {pool.submit(_run_step, step, identity): name for name, step in registry.stop_steps.items()}
    finished, _ = wait(running, timeout=STEP_SECONDS)
    pool.shutdown(wait=False)
    ended = {running[job]: job.result() for job in finished if job.exception() is None}
    _report_failures(finished, running, identity)
    pending = [name for name in names if name not in ended]
    Identity.objects.filter(pk=identity.pk).update(stop_pending=pending)
    return Stopped(identity, counts | ended, pending)


def _run_step(step: registry.StopStep, identity: Identity) -> int:
    try:
        with transaction.atomic():
            return step.run(identity)
    finally:
        connection.close()


def _report_failures(finished: set[Future[int]], running: dict[Future[int], str], identity: Identity) -> None:
    for job in finished:
        if job.exception() is not None:
            log.error(
                "stop step failed", exc_info=job.exception(), extra={"step": running[job], "identity": str(identity.pk)}
            )
