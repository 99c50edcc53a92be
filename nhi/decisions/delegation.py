"""Checks that every principal of a delegation chain may do the action, too. Pure: one decision for each principal."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from nhi.decisions import engine
from nhi.decisions.types import AccessMatch, CallCondition, Decision, DecisionFacts, DecisionParty, RequestedAction

#: A decision fails on this condition only if the principal's best match requires approval.
APPROVAL_NEEDED = CallCondition("approval", False, "approval_required", "Each such call waits for a person's approval.")
#: Principals' grants are counted when the call is admitted, like the caller's own grant.
BUDGET_COUNTED = CallCondition("budget", True)
CHAIN_REASONS = {"caller": "chain_unusable", "access": "chain_no_grant", "target_known": "chain_no_grant"}


@dataclass(frozen=True)
class Principal:
    """An identity on whose behalf the caller acts, with its grants and roles for the target."""

    name: str
    party: DecisionParty | None
    matches: tuple[AccessMatch, ...] = ()


@dataclass(frozen=True)
class ChainCheck:
    """The combined result for all principals."""

    condition: CallCondition
    #: Whether a principal's grant requires a person's approval.
    needs_approval: bool = False
    #: The deciding grants with an hourly limit, by the principal's name.
    counted_grants: Mapping[str, AccessMatch] = field(default_factory=dict)


def check_principals(
    principals: Sequence[Principal],
    action: RequestedAction,
    target: DecisionParty | None,
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
        CallCondition("chain", True, message=_allowed_message(principals)), needs_approval, counted_grants
    )


def _refusal_condition(principal: Principal, decision: Decision) -> CallCondition:
    failed = decision.failed_check
    reason = CHAIN_REASONS.get(failed.name, "chain_not_allowed") if failed is not None else "chain_not_allowed"
    message = f"This is done on behalf of {principal.name}, who may not do it: {decision.message}"
    return CallCondition("chain", False, reason, message)


def _allowed_message(principals: Sequence[Principal]) -> str:
    if not principals:
        return "It is done on nobody's behalf."
    return f"{', '.join(principal.name for principal in principals)}, on whose behalf this is done, may do it too."
