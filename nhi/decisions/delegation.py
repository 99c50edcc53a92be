"""Delegation chains, and the check that every principal of a chain may do the action."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from nhi.decisions import engine
from nhi.decisions.types import AccessMatch, CallerOrTarget, ConditionResult, Decision, DecisionFacts, RequestedAction

#: The most callers in a chain, including the first one.
MAX_CHAIN_DEPTH = 5
Json = dict[str, Any]


@dataclass(frozen=True)
class ChainLink:
    """One caller in a delegation chain: an identity or a person."""

    id: UUID
    name: str

    def as_json(self) -> dict[str, str]:
        return {"id": str(self.id), "name": self.name}


@dataclass(frozen=True)
class DelegationChain:
    """The callers and principals of an identity that acts in a run or a task."""

    callers: tuple[ChainLink, ...] = ()
    #: How many of the last callers are principals.
    principal_count: int = 0
    #: The task that the identity works on, if any.
    task_id: UUID | None = None

    @property
    def principals(self) -> tuple[ChainLink, ...]:
        return self.callers[len(self.callers) - self.principal_count :]

    @property
    def is_bound_to_task(self) -> bool:
        """Whether an identity in this chain may not claim another task or none."""
        return self.task_id is not None or self.principal_count > 0

    def extended(self, caller: ChainLink, *, delegates: bool) -> "DelegationChain":
        """Return the chain of an identity that `caller`, who acts in this chain, calls."""
        return DelegationChain((*self.callers, caller), self.principal_count + 1 if delegates else 0)

    def check_target(self, target: UUID, name: str) -> ConditionResult:
        """Check that the target adds no cycle and that the chain is not too deep."""
        if any(link.id == target for link in self.callers):
            message = f"{name} is above this in {self}: it would come round again."
            return ConditionResult("chain", False, "chain_cycle", message)
        if len(self.callers) > MAX_CHAIN_DEPTH:
            return ConditionResult("chain", False, "chain_depth", f"{self} is as deep as they may ask one another.")
        return ConditionResult("chain", True, message=f"{self} does not come round again.")

    def callers_as_json(self) -> list[dict[str, str]]:
        return [link.as_json() for link in self.callers]

    def as_json(self) -> Json:
        task_id = str(self.task_id) if self.task_id else None
        return {"above": self.callers_as_json(), "behalf": self.principal_count, "task_id": task_id}

    def __str__(self) -> str:
        return " > ".join(link.name for link in self.callers)


@dataclass(frozen=True)
class TaskFacts:
    """What a decision about a call within a task needs to know about the task."""

    holder_id: UUID
    is_open: bool
    #: The chain of the task's holder.
    chain: DelegationChain


def chain_from_json(data: Mapping[str, Any] | None) -> DelegationChain | None:
    if data is None:
        return None
    task_id = data.get("task_id")
    return DelegationChain(links_from_json(data["above"]), data["behalf"], UUID(task_id) if task_id else None)


def links_from_json(data: Sequence[Mapping[str, str]]) -> tuple[ChainLink, ...]:
    return tuple(ChainLink(UUID(link["id"]), link["name"]) for link in data)


def task_to_load(run_chain: DelegationChain | None, named_task_id: UUID | None) -> UUID | None:
    """Return the id of the task to load: the named one, else the task of the run."""
    return named_task_id or (run_chain.task_id if run_chain is not None else None)


def resolve_chain(
    run_chain: DelegationChain | None, named_task_id: UUID | None, holder_id: UUID, tasks: Mapping[UUID, TaskFacts]
) -> DelegationChain | ConditionResult | None:
    """Return the chain for an optional run and an optional named task, or the reason why the task is refused.

    A run may name only its own task. With another task of its agent it could leave its chain, or act in a task from a
    different sender.
    """
    task_id = task_to_load(run_chain, named_task_id)
    if task_id is None:
        return run_chain
    if run_chain is not None and run_chain.task_id != task_id:
        return _not_your_task(task_id)
    task = tasks.get(task_id)
    if task is None or task.holder_id != holder_id:
        # The same answer whether or not the task exists.
        return _not_your_task(task_id)
    if not task.is_open:
        return ConditionResult(
            "chain", False, "task_ended", f"The task {task_id} has ended; nothing is done within it."
        )
    return task.chain


def _not_your_task(task_id: UUID) -> ConditionResult:
    return ConditionResult("chain", False, "task_not_yours", f"You work on no task {task_id}.")


#: A decision fails on this condition only if the principal's best match requires approval.
APPROVAL_NEEDED = ConditionResult(
    "approval", False, "approval_required", "Each such call waits for a person's approval."
)
#: Principals' grants are counted when the call is admitted, like the caller's own grant.
BUDGET_COUNTED = ConditionResult("budget", True)
CHAIN_REASONS = {"caller": "chain_unusable", "access": "chain_no_grant", "target_known": "chain_no_grant"}


@dataclass(frozen=True)
class Principal:
    """An identity on whose behalf the caller acts, with its grants and roles for the target."""

    name: str
    party: CallerOrTarget | None
    matches: tuple[AccessMatch, ...] = ()


@dataclass(frozen=True)
class ChainCheck:
    """The combined result of checking the target against the grants and roles of every principal of a chain."""

    condition: ConditionResult
    #: Whether a principal's grant requires a person's approval.
    needs_approval: bool = False
    #: The deciding grants with an hourly limit, by the principal's name.
    counted_grants: Mapping[str, AccessMatch] = field(default_factory=dict)


def check_principals(
    principals: Sequence[Principal],
    action: RequestedAction,
    target: CallerOrTarget | None,
    *,
    decision_id: UUID,
    at: datetime,
) -> ChainCheck:
    needs_approval, counted_grants = False, dict[str, AccessMatch]()
    for principal in principals:
        facts = DecisionFacts(
            decision_id, at, None, matches=principal.matches, conditions=(APPROVAL_NEEDED, BUDGET_COUNTED)
        )
        decision = engine.decide(principal.party, action, target, facts)
        failed = decision.failed_check
        if not decision.allowed and (failed is None or failed.name != "approval"):
            return ChainCheck(_refusal_condition(principal, decision))
        needs_approval = needs_approval or not decision.allowed
        if decision.match is not None and decision.match.max_calls_per_hour is not None:
            counted_grants[principal.name] = decision.match
    return ChainCheck(
        ConditionResult("chain", True, message=_allowed_message(principals)), needs_approval, counted_grants
    )


def _refusal_condition(principal: Principal, decision: Decision) -> ConditionResult:
    failed = decision.failed_check
    reason = CHAIN_REASONS.get(failed.name, "chain_not_allowed") if failed is not None else "chain_not_allowed"
    message = f"This is done on behalf of {principal.name}, who may not do it: {decision.message}"
    return ConditionResult("chain", False, reason, message)


def _allowed_message(principals: Sequence[Principal]) -> str:
    if not principals:
        return "It is done on nobody's behalf."
    return f"{', '.join(principal.name for principal in principals)}, on whose behalf this is done, may do it too."
