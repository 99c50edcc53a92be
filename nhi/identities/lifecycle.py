"""Moves identities between states, and includes the kill switch. No other module changes the state."""

import logging
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextvars import copy_context
from dataclasses import dataclass, field
from typing import Any

from django.db import connection, transaction
from django.db.models import F
from django.db.models.functions import Now

from common.errors import InvalidTransition
from nhi import hooks
from nhi.access import bulk, rights
from nhi.actors import SYSTEM, Actor
from nhi.audit import events
from nhi.choices import TRANSITIONS, State, StopCause
from nhi.credentials import credentials
from nhi.models import Credential, Identity
from nhi.validation import Problems

log = logging.getLogger(__name__)

STEP_SECONDS = 3.0
STATE_VERBS: dict[State, str] = {
    State.ACTIVE: "activated",
    State.INACTIVE: "deactivated",
    State.SUSPENDED: "suspended",
    State.DEPRECATED: "deprecated",
    State.ARCHIVED: "archived",
}
#: A move to one of these states stops everything that the identity runs.
STOPPING_STATES = frozenset({State.SUSPENDED, State.ARCHIVED})
#: Kinds of work that a stop ends. The result has a count for each, even when it is 0.
STOP_COUNT_NAMES = ("tokens", "calls", "tasks", "schedules", "executions")


@dataclass(frozen=True)
class StopResult:
    """Counts of the work that a stop ended, and the names of the steps that the sweeper must still finish."""

    identity: Identity
    stopped: dict[str, int] = field(default_factory=dict)
    #: By step, how many of these had not started.
    unstarted: dict[str, int] = field(default_factory=dict)
    pending: list[str] = field(default_factory=list)


def set_initial_state(identity: Identity, *, active: bool, actor: Actor) -> None:
    """Set the first state of an identity that is not saved yet."""
    identity.state = State.ACTIVE if active else State.INACTIVE
    identity.state_by_id, identity.state_by = actor.id, actor.name


def activate(*, actor: Actor, identity: Identity, reason: str, revoke_credentials: bool = False) -> Identity:
    """Activate the identity. `revoke_credentials` revokes its live credentials first, in the same transaction."""
    with transaction.atomic():
        if revoke_credentials:
            credentials.revoke_all(actor=actor, holder=identity, reason=reason)
        return move(actor=actor, identity=identity, to=State.ACTIVE, reason=reason)


def deactivate(*, actor: Actor, identity: Identity, reason: str) -> Identity:
    return move(actor=actor, identity=identity, to=State.INACTIVE, reason=reason)


def deprecate(*, actor: Actor, identity: Identity, reason: str) -> Identity:
    return move(actor=actor, identity=identity, to=State.DEPRECATED, reason=reason)


def suspend(*, actor: Actor, identity: Identity, reason: str, cause: StopCause | str = "") -> StopResult:
    """The kill switch: end all access in a separate commit, then stop everything that runs.

    `cause` is the reason as a code. The person who reactivates the identity sees it.
    """
    with transaction.atomic(durable=True):
        moved = move(actor=actor, identity=identity, to=State.SUSPENDED, reason=reason, cause=cause)
    return _run_stop(moved)


def archive(*, actor: Actor, identity: Identity, reason: str) -> StopResult:
    """Archive for good: revoke credentials, grants of all three kinds and role assignments in one commit."""
    tokens = Credential.objects.live().filter(identity=identity).count()
    with transaction.atomic(durable=True):
        moved = move(actor=actor, identity=identity, to=State.ARCHIVED, reason=reason)
        bulk.revoke_all_access(actor=actor, identity=moved, reason=f"Archived: {reason}")
    return _run_stop(moved, tokens=tokens)


def move(*, actor: Actor, identity: Identity, to: State, reason: str, cause: StopCause | str = "") -> Identity:
    """Move the identity by compare-and-swap: its stored state must still be the state of `identity`."""
    rights.require_to_move(actor, identity)
    problems = Problems()
    problems.check_reason(reason)
    problems.unless(not cause or cause in StopCause, "cause", f"Use one of {', '.join(StopCause)}, or leave it out.")
    problems.raise_if_any()
    _require_right_to_lift(actor, identity, to)
    old = State(identity.state)
    if to not in TRANSITIONS[old]:
        raise _illegal_transition(identity, to)
    with transaction.atomic():
        if not _swap_state(identity, old, to, actor, reason, cause):
            raise _overtaken_error(Identity.objects.get(pk=identity.pk), to)
        moved = Identity.objects.select_related("owner", "backup_owner").get(pk=identity.pk)
        events.write(
            f"identity.{STATE_VERBS[to]}",
            actor=actor,
            subject=moved,
            before={"state": old},
            after={"state": to, **({"cause": cause} if cause else {})},
            reason=reason,
        )
    return moved


def _require_right_to_lift(actor: Actor, identity: Identity, to: State) -> None:
    """Owners may lift their own suspensions. Every other suspension needs a security admin."""
    lifts = identity.state == State.SUSPENDED and to == State.ACTIVE
    if lifts and identity.state_by_id != actor.id:
        actor.require("nhi.move_identity", f"activate what {identity.state_by} suspended")


def consequences(identity: Identity) -> dict[str, int]:
    """Return counts of what a stop would end now. The confirmation dialog shows them."""
    return consequences_of([identity])


def consequences_of(identities: Sequence[Identity]) -> dict[str, int]:
    """Return the total counts of what a stop of several identities would end."""
    counts = dict.fromkeys(STOP_COUNT_NAMES, 0)
    counts["tokens"] = Credential.objects.live().filter(identity__in=identities).count()
    return counts | {step.name: step.count(identities) for step in hooks.stop_steps.values()}


def count_unstarted(identities: Sequence[Identity]) -> dict[str, int]:
    """Return how much of the work in `consequences_of` has not started and would only leave a queue."""
    return {step.name: step.unstarted(identities) for step in hooks.stop_steps.values()}


def count_not_resumed(identity: Identity) -> dict[str, int]:
    """Return counts of the work that a stop ended and that activation does not resume."""
    return {step.name: step.remains(identity) for step in hooks.stop_steps.values()}


def why_inactive(identity: Identity) -> str:
    """Return why the identity may not act, for the logs: `deploy-bot was suspended by mara: leaked token`."""
    state = State(identity.state)
    if state == State.ACTIVE:
        return f"{identity.name} has expired."
    if not identity.state_reason:
        return f"{identity.name} is {state.label.lower()}."
    return f"{identity.name} was {STATE_VERBS[state]} by {identity.state_by}: {identity.state_reason}"


def finish_stops() -> int:
    """Run the pending steps of unfinished stops again; the sweeper calls this. Return how many stops are finished."""
    waiting = Identity.objects.exclude(stop_pending=[])
    return sum(_finish_stop(identity) for identity in waiting)


def _swap_state(identity: Identity, old: State, to: State, actor: Actor, reason: str, cause: str) -> bool:
    # Compare `state_by_id` too: someone else may have activated and suspended the identity again, and their
    # suspension must not be lifted here.
    unchanged_row = Identity.objects.filter(pk=identity.pk, state=old, state_by_id=identity.state_by_id)
    updated = unchanged_row.update(
        state=to,
        state_since=Now(),
        state_reason=reason,
        state_cause=cause,
        state_by_id=actor.id,
        state_by=actor.name,
        updated_at=Now(),
        **_access_changes(to),
    )
    return updated == 1


def _access_changes(to: State) -> dict[str, Any]:
    if to == State.ACTIVE:
        # The identity may run again, so pending steps of an earlier stop must not run.
        return {"stop_pending": []}
    changes: dict[str, Any] = {"access_epoch": F("access_epoch") + 1, "tokens_from": Now()}
    # Stored before the first step runs: if this process dies, the sweeper finishes the stop.
    return changes | {"stop_pending": list(hooks.stop_steps)} if to in STOPPING_STATES else changes


def _overtaken_error(identity: Identity, to: State) -> InvalidTransition:
    """Return the error for a lost compare-and-swap. The actor decides whether to repeat a move that is still legal."""
    illegal = _illegal_transition(identity, to)
    if to not in TRANSITIONS[State(identity.state)]:
        return illegal
    verb = STATE_VERBS[State(identity.state)]
    message = f"{identity.name} was {verb} by {identity.state_by} meanwhile. Nothing was changed."
    return InvalidTransition(message, details=illegal.details)


def _illegal_transition(identity: Identity, to: State) -> InvalidTransition:
    current = State(identity.state)
    state_text = f"{identity.name} is {current.label.lower()}"
    actor_text = f" ({identity.state_by}: “{identity.state_reason}”)" if identity.state_reason else ""
    problem = f" already{actor_text}" if to == current else f"{actor_text} and cannot become {to.label.lower()}"
    return InvalidTransition(
        f"{state_text}{problem}. Nothing was changed.",
        details={"state": current, "allowed": sorted(TRANSITIONS[current])},
    )


def _run_stop(identity: Identity, *, tokens: int | None = None) -> StopResult:
    """Run every stop step. The result names the steps that failed or timed out; the sweeper finishes them."""
    counts = dict.fromkeys(STOP_COUNT_NAMES, 0)
    counts["tokens"] = Credential.objects.live().filter(identity=identity).count() if tokens is None else tokens
    names = list(identity.stop_pending)
    results = _run_steps(identity, names)
    return StopResult(
        identity,
        counts | {name: result.count for name, result in results.items()},
        {name: result.unstarted for name, result in results.items()},
        [name for name in names if name not in results],
    )


def _finish_stop(identity: Identity) -> bool:
    # A step whose app is no longer installed has nothing left to stop.
    for name in set(identity.stop_pending) - set(hooks.stop_steps):
        _remove_pending_step(identity, name)
    _run_steps(identity, [name for name in identity.stop_pending if name in hooks.stop_steps])
    with transaction.atomic():
        locked = Identity.objects.select_for_update().get(pk=identity.pk)
        finished = not locked.stop_pending and locked.state != State.ACTIVE
        if finished:
            steps = {"steps": sorted(identity.stop_pending)}
            events.write("identity.stop_finished", actor=SYSTEM, subject=locked, details=steps)
    return finished


def _run_steps(identity: Identity, names: list[str]) -> dict[str, hooks.StopStepResult]:
    """Run the steps in parallel, each in its own transaction. Return the results of those that finished in time."""
    if not names:
        return {}
    pool = ThreadPoolExecutor(max_workers=len(names), thread_name_prefix="stop")
    # Each step runs in a copy of the context, so that its audit events carry the request's id.
    running = {pool.submit(copy_context().run, _run_step, hooks.stop_steps[name], identity): name for name in names}
    finished, _ = wait(running, timeout=STEP_SECONDS)
    pool.shutdown(wait=False)
    _report_failures(finished, running, identity)
    return {running[job]: job.result() for job in finished if job.exception() is None}


def _run_step(step: hooks.StopStep, identity: Identity) -> hooks.StopStepResult:
    try:
        with transaction.atomic():
            result = step.run(identity)
            _remove_pending_step(identity, step.name)
            return result if isinstance(result, hooks.StopStepResult) else hooks.StopStepResult(result)
    finally:
        connection.close()


def _remove_pending_step(identity: Identity, name: str) -> None:
    """Remove a finished step from `stop_pending`, in the step's own transaction, so that late steps count too."""
    with transaction.atomic():
        locked = Identity.objects.select_for_update().only("stop_pending").get(pk=identity.pk)
        remaining = [step for step in locked.stop_pending if step != name]
        Identity.objects.filter(pk=identity.pk).update(stop_pending=remaining)


def _report_failures(
    finished: set[Future[hooks.StopStepResult]], running: dict[Future[hooks.StopStepResult], str], identity: Identity
) -> None:
    for job in finished:
        if job.exception() is not None:
            log.error(
                "stop step failed", exc_info=job.exception(), extra={"step": running[job], "identity": str(identity.pk)}
            )
