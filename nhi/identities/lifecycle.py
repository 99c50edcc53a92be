"""The one place that moves an identity from state to state, and the kill switch."""

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
from nhi.access import access, rights
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
#: The states in which nothing of an identity goes on running.
STOPPING_STATES = frozenset({State.SUSPENDED, State.ARCHIVED})
#: What a stop may end, each in the reply whether or not there was any.
STOP_COUNT_NAMES = ("tokens", "calls", "tasks", "schedules", "executions")


@dataclass(frozen=True)
class StopResult:
    """What a stop ended, and the names of the steps that the sweeper still has to finish."""

    identity: Identity
    stopped: dict[str, int] = field(default_factory=dict)
    #: Of these, by step, what had not begun.
    unstarted: dict[str, int] = field(default_factory=dict)
    pending: list[str] = field(default_factory=list)


def set_initial_state(identity: Identity, *, active: bool, actor: Actor) -> None:
    """The first state of an identity that is not stored yet."""
    identity.state = State.ACTIVE if active else State.INACTIVE
    identity.state_by_id, identity.state_by = actor.id, actor.name


def activate(*, actor: Actor, identity: Identity, reason: str, revoke_credentials: bool = False) -> Identity:
    """Let it act again; `revoke_credentials` ends its live credentials before, in the same commit."""
    with transaction.atomic():
        if revoke_credentials:
            credentials.revoke_all(actor=actor, holder=identity, reason=reason)
        return move(actor=actor, identity=identity, to=State.ACTIVE, reason=reason)


def deactivate(*, actor: Actor, identity: Identity, reason: str) -> Identity:
    return move(actor=actor, identity=identity, to=State.INACTIVE, reason=reason)


def deprecate(*, actor: Actor, identity: Identity, reason: str) -> Identity:
    return move(actor=actor, identity=identity, to=State.DEPRECATED, reason=reason)


def suspend(*, actor: Actor, identity: Identity, reason: str, cause: StopCause | str = "") -> StopResult:
    """The kill switch: access ends in one commit of its own, then everything that runs is stopped.

    `cause` is the reason as a code, for whoever reactivates it.
    """
    with transaction.atomic(durable=True):
        moved = move(actor=actor, identity=identity, to=State.SUSPENDED, reason=reason, cause=cause)
    return _run_stop(moved)


def archive(*, actor: Actor, identity: Identity, reason: str) -> StopResult:
    """The end: access, credentials, grants of all three kinds and role assignments go in one commit."""
    tokens = Credential.objects.live().filter(identity=identity).count()
    with transaction.atomic(durable=True):
        moved = move(actor=actor, identity=identity, to=State.ARCHIVED, reason=reason)
        access.revoke_all_access(actor=actor, identity=moved, reason=f"Archived: {reason}")
    return _run_stop(moved, tokens=tokens)


def move(*, actor: Actor, identity: Identity, to: State, reason: str, cause: StopCause | str = "") -> Identity:
    """Compare and swap: the move happens from the state that `identity` was read in, or not at all."""
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
    """An owner lifts the suspension that they set; one that a security admin set is a security admin's to lift."""
    lifts = identity.state == State.SUSPENDED and to == State.ACTIVE
    if lifts and identity.state_by_id != actor.id:
        actor.require("nhi.move_identity", f"activate what {identity.state_by} suspended")


def consequences(identity: Identity) -> dict[str, int]:
    """What a stop would end now, for the dialog that says so before it happens."""
    return consequences_of([identity])


def consequences_of(identities: Sequence[Identity]) -> dict[str, int]:
    """The same for a stop of several, all together."""
    counts = dict.fromkeys(STOP_COUNT_NAMES, 0)
    counts["tokens"] = Credential.objects.live().filter(identity__in=identities).count()
    return counts | {step.name: step.count(identities) for step in hooks.stop_steps.values()}


def count_unstarted(identities: Sequence[Identity]) -> dict[str, int]:
    """Of these consequences, what only leaves a queue."""
    return {step.name: step.unstarted(identities) for step in hooks.stop_steps.values()}


def count_not_resumed(identity: Identity) -> dict[str, int]:
    """What a stop ended and activating does not begin again."""
    return {step.name: step.remains(identity) for step in hooks.stop_steps.values()}


def why_inactive(identity: Identity) -> str:
    """Why it may not act, for the record: `deploy-bot was suspended by mara: leaked token`."""
    state = State(identity.state)
    if state == State.ACTIVE:
        return f"{identity.name} has expired."
    if not identity.state_reason:
        return f"{identity.name} is {state.label.lower()}."
    return f"{identity.name} was {STATE_VERBS[state]} by {identity.state_by}: {identity.state_reason}"


def finish_stops() -> int:
    """The sweeper's part: run again what a stop could not finish at once. Returns how many are finished now."""
    waiting = Identity.objects.exclude(stop_pending=[])
    return sum(_finish_stop(identity) for identity in waiting)


def _swap_state(identity: Identity, old: State, to: State, actor: Actor, reason: str, cause: str) -> bool:
    # Who set the state too: it may have been left and entered again by another, whose suspension this would lift.
    read = Identity.objects.filter(pk=identity.pk, state=old, state_by_id=identity.state_by_id)
    rows = read.update(
        state=to,
        state_since=Now(),
        state_reason=reason,
        state_cause=cause,
        state_by_id=actor.id,
        state_by=actor.name,
        updated_at=Now(),
        **_access_changes(to),
    )
    return rows == 1


def _access_changes(to: State) -> dict[str, Any]:
    if to == State.ACTIVE:
        # It may run again, so what a stop had left to do is not done to it afterwards.
        return {"stop_pending": []}
    ends: dict[str, Any] = {"access_epoch": F("access_epoch") + 1, "tokens_from": Now()}
    # Noted before the first step: when this process dies in the middle, the sweeper still knows.
    return ends | {"stop_pending": list(hooks.stop_steps)} if to in STOPPING_STATES else ends


def _overtaken_error(identity: Identity, to: State) -> InvalidTransition:
    """Somebody else was first; what this was meant for may still be legal, and is for its actor to look at again."""
    illegal = _illegal_transition(identity, to)
    if to not in TRANSITIONS[State(identity.state)]:
        return illegal
    verb = STATE_VERBS[State(identity.state)]
    message = f"{identity.name} was {verb} by {identity.state_by} meanwhile. Nothing was changed."
    return InvalidTransition(message, details=illegal.details)


def _illegal_transition(identity: Identity, to: State) -> InvalidTransition:
    current = State(identity.state)
    now = f"{identity.name} is {current.label.lower()}"
    who = f" ({identity.state_by}: “{identity.state_reason}”)" if identity.state_reason else ""
    wish = f" already{who}" if to == current else f"{who} and cannot become {to.label.lower()}"
    return InvalidTransition(
        f"{now}{wish}. Nothing was changed.",
        details={"state": current, "allowed": sorted(TRANSITIONS[current])},
    )


def _run_stop(identity: Identity, *, tokens: int | None = None) -> StopResult:
    """Run every stop step; what fails or is slow is named in the answer and left to the sweeper."""
    counts = dict.fromkeys(STOP_COUNT_NAMES, 0)
    counts["tokens"] = Credential.objects.live().filter(identity=identity).count() if tokens is None else tokens
    names = list(identity.stop_pending)
    ended = _run_steps(identity, names)
    return StopResult(
        identity,
        counts | {name: one.count for name, one in ended.items()},
        {name: one.unstarted for name, one in ended.items()},
        [name for name in names if name not in ended],
    )


def _finish_stop(identity: Identity) -> bool:
    # A step whose app is no longer installed has nothing left to stop.
    for name in set(identity.stop_pending) - set(hooks.stop_steps):
        _remove_pending_step(identity, name)
    _run_steps(identity, [name for name in identity.stop_pending if name in hooks.stop_steps])
    with transaction.atomic():
        now = Identity.objects.select_for_update().get(pk=identity.pk)
        finished = not now.stop_pending and now.state != State.ACTIVE
        if finished:
            steps = {"steps": sorted(identity.stop_pending)}
            events.write("identity.stop_finished", actor=SYSTEM, subject=now, details=steps)
    return finished


def _run_steps(identity: Identity, names: list[str]) -> dict[str, hooks.StopStepResult]:
    """Side by side, each in its own transaction: how many things each ended, for those that did so in time."""
    if not names:
        return {}
    pool = ThreadPoolExecutor(max_workers=len(names), thread_name_prefix="stop")
    # Each in a copy of the context, so that what a step records names the request.
    running = {pool.submit(copy_context().run, _run_step, hooks.stop_steps[name], identity): name for name in names}
    finished, _ = wait(running, timeout=STEP_SECONDS)
    pool.shutdown(wait=False)
    _report_failures(finished, running, identity)
    return {running[job]: job.result() for job in finished if job.exception() is None}


def _run_step(step: hooks.StopStep, identity: Identity) -> hooks.StopStepResult:
    try:
        with transaction.atomic():
            ended = step.run(identity)
            _remove_pending_step(identity, step.name)
            return ended if isinstance(ended, hooks.StopStepResult) else hooks.StopStepResult(ended)
    finally:
        connection.close()


def _remove_pending_step(identity: Identity, name: str) -> None:
    """Take a finished step off the list, in the step's own transaction: a late one counts as well as one in time."""
    with transaction.atomic():
        now = Identity.objects.select_for_update().only("stop_pending").get(pk=identity.pk)
        left = [other for other in now.stop_pending if other != name]
        Identity.objects.filter(pk=identity.pk).update(stop_pending=left)


def _report_failures(
    finished: set[Future[hooks.StopStepResult]], running: dict[Future[hooks.StopStepResult], str], identity: Identity
) -> None:
    for job in finished:
        if job.exception() is not None:
            log.error(
                "stop step failed", exc_info=job.exception(), extra={"step": running[job], "identity": str(identity.pk)}
            )
