"""Conditions that a run or a task adds to a decision outside of the gateway: delegation chain and hourly quota."""

from datetime import datetime
from typing import Any
from uuid import UUID

from nhi import hooks
from nhi.actors import Actor
from nhi.authorization import facts
from nhi.authorization.facts import LoadedFacts
from nhi.choices import Kind
from nhi.decisions import delegation
from nhi.decisions.delegation import ChainCheck, ChainLink, DelegationChain
from nhi.decisions.types import CallerOrTarget, ConditionResult, RequestedAction


def check_chain(
    chain: DelegationChain, action: RequestedAction, loaded_facts: LoadedFacts, *, at: datetime | None = None
) -> ChainCheck:
    """Decide the same action for each principal of the chain."""
    target, decision_facts = loaded_facts.target, loaded_facts.facts
    principals = facts.for_principals(chain.principals, target.id, at=at) if target is not None else []
    return delegation.check_principals(
        principals, action, target, decision_id=decision_facts.decision_id, at=decision_facts.decided_at
    )


def check_work_context(
    loaded_facts: LoadedFacts,
    action: RequestedAction,
    *,
    run_chain: DelegationChain | None = None,
    task_id: UUID | None = None,
    visible_to: Actor | None = None,
    at: datetime | None = None,
) -> ChainCheck | None:
    """Check the chain of the caller's run or task; None if the caller acts in neither."""
    caller, target = loaded_facts.caller, loaded_facts.target
    if caller is None or target is None:
        return None
    id_to_load = delegation.task_to_load(run_chain, task_id)
    tasks = hooks.load_tasks([id_to_load], visible_to=visible_to) if id_to_load is not None else {}
    resolved = delegation.resolve_chain(run_chain, task_id, caller.id, tasks)
    if isinstance(resolved, ConditionResult):
        return ChainCheck(resolved)
    if resolved is None:
        return None
    target_check = _check_chain_target(resolved, caller, target)
    return check_chain(resolved, action, loaded_facts, at=at) if target_check.ok else ChainCheck(target_check)


def hourly_quota_conditions(loaded_facts: LoadedFacts) -> tuple[ConditionResult, ...]:
    """Return the hourly quota of the grant between the two identities that would be used, if it has a limit."""
    if loaded_facts.target is None or loaded_facts.target.kind == Kind.TOOL:
        return ()
    live = sorted((match for match in loaded_facts.facts.matches if match.live), key=lambda match: not match.delegates)
    return hooks.load_hourly_quota(live[0]) if live and live[0].max_calls_per_hour is not None else ()


def chain_conditions(chain_check: ChainCheck | None) -> tuple[ConditionResult, ...]:
    """Return the conditions that a chain check adds to the decision."""
    if chain_check is None:
        return ()
    approval = (ConditionResult("every_call_approved", True),) if chain_check.needs_approval else ()
    return (chain_check.condition, *approval)


def _check_chain_target(chain: DelegationChain, caller: CallerOrTarget, target: CallerOrTarget) -> ConditionResult:
    """Refuse an agent that would close a cycle or exceed the depth. Tools call nobody, so they always pass."""
    if target.kind == Kind.TOOL:
        return ConditionResult("chain", True)
    return chain.extended(ChainLink(caller.id, caller.name), delegates=False).check_target(target.id, target.name)


def run_chain_of(loaded_facts: LoadedFacts) -> DelegationChain | None:
    """Return the chain of the run that owns the token; None for other tokens."""
    data: Any = loaded_facts.credential.chain if loaded_facts.credential is not None else None
    return delegation.chain_from_json(data)
