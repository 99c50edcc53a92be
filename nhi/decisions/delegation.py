"""What is done on behalf of others has to be allowed to each of them, too. Pure: the same decision, once for each."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from nhi.decisions import engine
from nhi.decisions.types import AccessMatch, CallCondition, Decision, DecisionFacts, DecisionParty, RequestedAction

#: A principal's grant that wants each call approved says so by failing at this; any other right of its own goes first.
APPROVAL_NEEDED = CallCondition("approval", False, "approval_required", "Each such call waits for a person's approval.")
#: Counted when the call is let through, as the caller's own grant is.
BUDGET_COUNTED = CallCondition("budget", True)
CHAIN_REASONS = {"caller": "chain_unusable", "access": "chain_no_grant", "target_known": "chain_no_grant"}


@dataclass(frozen=True)
class Principal:
    """One on whose behalf something is done, and what it holds for the target."""

    name: str
    party: DecisionParty | None
    matches: tuple[AccessMatch, ...] = ()


@dataclass(frozen=True)
class ChainCheck:
    """What the rights of all of them come to."""

    condition: CallCondition
    #: One of them may only do it with a person's yes.
    needs_approval: bool = False
    #: Their grants that let it pass and limit how often, by whose they are.
    counted_grants: Mapping[str, AccessMatch] = field(default_factory=dict)


def check_principals(
    principals: Sequence[Principal],
    wanted: RequestedAction,
    target: DecisionParty | None,
    *,
    decision_id: UUID,
    at: datetime,
) -> ChainCheck:
    asks, counted = False, dict[str, AccessMatch]()
    for principal in principals:
        facts = DecisionFacts(
            decision_id, at, None, matches=principal.matches, conditions=(APPROVAL_NEEDED, BUDGET_COUNTED)
        )
        decision = engine.decide(principal.party, wanted, target, facts)
        failed = decision.failed_check
        if not decision.allowed and (failed is None or failed.name != "approval"):
            return ChainCheck(_refusal_condition(principal, decision))
        asks = asks or not decision.allowed
        if decision.match is not None and decision.match.max_calls_per_hour is not None:
            counted[principal.name] = decision.match
    return ChainCheck(CallCondition("chain", True, message=_allowed_message(principals)), asks, counted)


def _refusal_condition(principal: Principal, decision: Decision) -> CallCondition:
    failed = decision.failed_check
    reason = CHAIN_REASONS.get(failed.name, "chain_not_allowed") if failed is not None else "chain_not_allowed"
    said = f"This is done on behalf of {principal.name}, who may not do it: {decision.message}"
    return CallCondition("chain", False, reason, said)


def _allowed_message(principals: Sequence[Principal]) -> str:
    if not principals:
        return "It is done on nobody's behalf."
    return f"{', '.join(one.name for one in principals)}, on whose behalf this is done, may do it too."
