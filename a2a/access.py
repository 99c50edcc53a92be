"""Who may send a task to whom: one decision for every send, whichever way it came."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from math import ceil
from typing import Any
from uuid import UUID

from a2a import chains, endpoint_room, hours
from a2a.chains import Chain
from a2a.models import Task
from a2a.models.tasks import FOR_ANOTHER
from common import context
from common.errors import GatehouseError, NotAllowed, NotFound, PayloadTooLarge, RateLimited
from common.fastsql.compiled_queries import PreparedQuery
from nhi.actors import Actor
from nhi.authorization import facts, work_conditions
from nhi.authorization.facts import LoadedFacts
from nhi.choices import Kind, PermissionType, State
from nhi.credentials import run_tokens
from nhi.decisions import engine
from nhi.decisions.delegation import ChainLink
from nhi.decisions.delegation import DelegationChain as NobodyBehind
from nhi.decisions.types import AccessMatch, ConditionResult, Decision, RequestedAction
from nhi.models import Identity, NhiPermission
from supervisor.access import Caller

#: Of one whole; and after how many seconds to ask again.
MOST_OPEN, RETRY_AFTER = 200, 30
_SENDER = PreparedQuery(lambda identity: Identity.objects.filter(pk=identity).order_by(), identity=UUID)
SEND = "a2a.send_task"


class QuotaExceeded(RateLimited):
    """The hour of a grant is used up."""

    code = "quota_exceeded"


@dataclass(frozen=True)
class Permit:
    """What lets a task be sent, for its row."""

    by: Mapping[str, Any]
    grant_id: UUID | None = None
    #: Whether the agent acts on the caller's behalf: only a grant makes it so, never a person.
    delegates: bool = False
    #: When it was decided, unless others were waited for since.
    at: datetime | None = None

    @property
    def permission_type(self) -> PermissionType:
        return PermissionType.DELEGATE if self.delegates else PermissionType.CALL


@dataclass(frozen=True)
class Refused(Exception):
    """What the sender hears, and what the record says."""

    error: GatehouseError
    reason: str
    details: Mapping[str, Any] = field(default_factory=dict)


def source_of(caller: Caller, named: UUID | None) -> Identity | None:
    """In whose name the task is sent: the caller's own, unless somebody who may says another; None for people."""
    actor = caller.actor
    if named is None or named == actor.id:
        return None if actor.is_person else caller.identity or _SENDER.fetch_first(identity=actor.id)
    if not actor.may(FOR_ANOTHER):
        # The same whether or not there is such an identity.
        said = NotAllowed("You may send tasks in your own name only.", details={"reason": "source_not_yours"})
        raise Refused(said, "source_not_yours")
    found = Identity.objects.of_kind(Kind.AGENT, Kind.SERVICE_ACCOUNT).filter(pk=named).first()
    if found is None:
        raise NotFound
    return found


def may_send(actor: Actor, target: Identity | None = None) -> bool:
    """Whether this person may send tasks to this agent, or to any at all; not whether it can take them now."""
    if actor.only_reads:
        return False
    if actor.may(SEND):
        return True
    usable = Identity.objects.used_by(actor).of_kind(Kind.AGENT)
    # What is archived takes none ever again; of a known one that is told to whom it is sent.
    return (usable.exclude(state=State.ARCHIVED) if target is None else usable.filter(pk=target.pk)).exists()


def require(
    *, caller: Caller, source: Identity | None, target: Identity, action: str, given: Any, chain: Chain
) -> Permit:
    """Call it in the transaction that writes the task: limits count under the locks of grant and endpoint."""
    permit = _permit(caller, source, target, action, given, chain)
    try:
        endpoint_room.require(target, given)
    except (RateLimited, PayloadTooLarge) as full:
        raise Refused(full, full.code, {"reason": full.code}) from full
    return permit


def _permit(caller: Caller, source: Identity | None, target: Identity, action: str, given: Any, chain: Chain) -> Permit:
    if source is None:
        return _require_of_person(caller.actor, target, chain)
    loaded = _facts(caller, source, target)
    wanted = RequestedAction("call", given, name=action or None)
    closed = _along(chain, wanted, loaded, target)
    decision = _decide(loaded, wanted, closed, ConditionResult("budget", True))
    match = decision.match
    if decision.allowed and match is not None and match.max_calls_per_hour is not None:
        decision = _decide(loaded, wanted, closed, _budget(match))
    if not decision.allowed:
        raise _refusal(caller.actor, decision, target, had_access=bool(loaded.facts.matches))
    match = decision.match
    assert match is not None  # an allowed call has one
    at = decision.decided_at if match.max_calls_per_hour is None else None
    return Permit({"decision_id": str(decision.id), "grant": str(match.id)}, match.id, match.delegates, at)


def _along(chain: Chain, wanted: RequestedAction, loaded: LoadedFacts, target: Identity) -> ConditionResult:
    """Neither round in a circle nor too deep, and nothing that those on whose behalf it is asked may not ask."""
    closed = chain.to(target)
    if not closed.ok or not chain.behind.principals:
        return closed
    return work_conditions.check_chain(chain.behind, wanted, loaded).condition


def require_room(chain: Chain) -> None:
    """However agents ask one another within a task, so many of its parts are open at a time and no more."""
    if chain.parent is None:
        return
    # Whoever sends beside us waits here, and whoever ends the parent finds this part or is found by it.
    held = Task.objects.select_for_update(no_key=True).filter(pk__in={chain.parent.pk, chain.parent.root_id})
    if not all(task.is_open for task in held.only("pk", "state").order_by("pk") if task.pk == chain.parent.pk):
        raise chains.ended()
    if Task.objects.open().filter(root_id=chain.parent.root_id).count() >= MOST_OPEN:
        said = f"{MOST_OPEN} parts of the task that this is a part of are open; wait until some are done."
        details = {"reason": "quota_exceeded"}
        raise Refused(QuotaExceeded(said, retry_after=RETRY_AFTER), "quota_exceeded", details)


def require_still(*, caller: Caller, task: Task, given: Any) -> None:
    """Who goes on with a task may still ask its agent. It was counted when it was sent."""
    target, source = task.agent, task.source
    run = run_tokens.load_chain(caller.shown)
    if run is not None and run.is_bound_to_task and (run.task_id is None or task.parent_id != run.task_id):
        # Else what it may not ask of this agent by a new task it could say in one of before.
        said = NotAllowed(f"This run works on something else than the {task}.", details={"reason": "task_not_yours"})
        raise Refused(said, "task_not_yours")
    if source is None:
        assert caller.actor.id is not None  # whoever asks at a door is somebody
        _require_of_person(caller.actor, target, Chain(NobodyBehind(), ChainLink(caller.actor.id, caller.actor.name)))
        return
    chain = chains.of(ChainLink(source.pk, source.name), holder_id=source.pk, parent_task_id=task.parent_id, shown=None)
    loaded, wanted = _facts(caller, source, target), RequestedAction("call", given, name=task.task_type or None)
    decision = _decide(loaded, wanted, _along(chain, wanted, loaded, target))
    if not decision.allowed:
        raise _refusal(caller.actor, decision, target, had_access=True)


def _facts(caller: Caller, source: Identity, target: Identity) -> LoadedFacts:
    if caller.shown is not None and source.pk == caller.actor.id:
        return facts.for_token(caller.shown, context.current().source, target.pk, audience=caller.audience)
    # Somebody who may speaks for it; what it may itself is asked all the same.
    return facts.for_question(source.pk, target.pk)


def _decide(loaded: LoadedFacts, wanted: RequestedAction, *conditions: ConditionResult) -> Decision:
    return engine.decide(loaded.caller, wanted, loaded.target, replace(loaded.facts, conditions=conditions))


def _budget(match: AccessMatch) -> ConditionResult:
    """How much of the hour is used, exactly: who sends beside us waits for the grant's row."""
    NhiPermission.objects.select_for_update(of=("self",)).get(pk=match.id)
    return hours.left(match)


def _refusal(actor: Actor, decision: Decision, target: Identity, *, had_access: bool) -> Refused:
    details = {"reason": decision.reason, "decision_id": str(decision.id)}
    if decision.reason == "quota_exceeded" and decision.match is not None:
        _, first = hours.used(decision.match.id)
        wait = ceil((first + hours.HOUR - decision.decided_at).total_seconds()) if first else 1
        return Refused(QuotaExceeded(decision.message, retry_after=wait), decision.reason, details)
    if decision.reason == "no_grant" and not (had_access or target.discoverable or _sees(actor, target)):
        return Refused(NotFound(), decision.reason, details)
    return Refused(NotAllowed(decision.message, details=details), decision.reason, details)


def _require_of_person(actor: Actor, target: Identity, chain: Chain) -> Permit:
    by = {"right": SEND if actor.may(SEND) else "owner or grant"}
    if not may_send(actor, target):
        raise _unknown(actor, target)
    if not Identity.objects.usable().filter(pk=target.pk).exists():
        reason = "target_expired" if target.state == State.ACTIVE else "target_unusable"
        now = "expired" if target.state == State.ACTIVE else State(target.state).label.lower()
        said = NotAllowed(f"{target.name} is {now}.", details={"reason": reason})
        raise Refused(said, reason)
    round_again = chain.to(target)
    if not round_again.ok:
        details = {"reason": round_again.reason}
        raise Refused(NotAllowed(round_again.message, details=details), round_again.reason)
    return Permit(by)


def _unknown(actor: Actor, target: Identity) -> Refused:
    if target.discoverable or _sees(actor, target):
        said = NotAllowed(f"You may not send tasks to {target.name}.", details={"reason": "no_grant"})
        return Refused(said, "no_grant")
    return Refused(NotFound(), "no_grant")


def _sees(actor: Actor, target: Identity) -> bool:
    """Of people: an identity sees itself, which tells nothing of what it may ask."""
    return actor.is_person and Identity.objects.visible_to(actor).filter(pk=target.pk).exists()
