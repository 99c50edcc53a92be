"""Conditions that a run or a task adds to a decision outside of the gateway: delegation chain and hourly quota."""

from datetime import datetime
from typing import Any
from uuid import UUID

from nhi import hooks
from nhi.actors import Actor
from nhi.authorization import facts
from nhi.authorization.facts import LoadedFacts
from nhi.choices import Kind
from nhi.decisions import chains, delegation
from nhi.decisions.chains import ChainLink, DelegationChain
from nhi.decisions.delegation import ChainCheck
from nhi.decisions.types import CallCondition, DecisionParty, RequestedAction


def check_chain(
    chain: DelegationChain, wanted: RequestedAction, loaded: LoadedFacts, *, at: datetime | None = None
) -> ChainCheck:
    """Decide the same action for each principal of the chain."""
    target, known = loaded.target, loaded.facts
    principals = facts.for_principals(chain.principals, target.id, at=at) if target is not None else []
    return delegation.check_principals(principals, wanted, target, decision_id=known.decision_id, at=known.decided_at)


def check_work_context(
    loaded: LoadedFacts, wanted: RequestedAction, *, run: DelegationChain | None = None, task_id: UUID | None = None,
    seen_by: Actor | None = None, at: datetime | None = None,
) -> ChainCheck | None:  # fmt: skip
    """Check the chain of the caller's run or task; None if the caller acts in neither."""
    caller, target = loaded.caller, loaded.target
    if caller is None or target is None:
        return None
    named = chains.task_to_load(run, task_id)
    tasks = hooks.load_tasks([named], seen_by=seen_by) if named is not None else {}
    behind = chains.resolve_chain(run, task_id, caller.id, tasks)
    if isinstance(behind, CallCondition):
        return ChainCheck(behind)
    if behind is None:
        return None
    ends = _check_chain_target(behind, caller, target)
    return check_chain(behind, wanted, loaded, at=at) if ends.ok else ChainCheck(ends)


def hourly_quota_conditions(loaded: LoadedFacts) -> tuple[CallCondition, ...]:
    """Return the hourly quota of the grant between the two identities that would be used, if it has a limit."""
    if loaded.target is None or loaded.target.kind == Kind.TOOL:
        return ()
    live = sorted((match for match in loaded.facts.matches if match.live), key=lambda match: not match.delegates)
    return hooks.load_hourly_quota(live[0]) if live and live[0].max_calls_per_hour is not None else ()


def chain_conditions(standing: ChainCheck | None) -> tuple[CallCondition, ...]:
    """Return the conditions that a chain check adds to the decision."""
    if standing is None:
        return ()
    asks = (CallCondition("every_call_approved", True),) if standing.needs_approval else ()
    return (standing.condition, *asks)


def _check_chain_target(behind: DelegationChain, caller: DecisionParty, target: DecisionParty) -> CallCondition:
    """Refuse an agent that would close a cycle or exceed the depth. Tools call nobody, so they always pass."""
    if target.kind == Kind.TOOL:
        return CallCondition("chain", True)
    return behind.extended(ChainLink(caller.id, caller.name), delegates=False).check_target(target.id, target.name)


def run_chain_of(loaded: LoadedFacts) -> DelegationChain | None:
    """Return the chain of the run that owns the token; None for other tokens."""
    kept: Any = loaded.credential.chain if loaded.credential is not None else None
    return chains.chain_from_json(kept)
