"""What is done on behalf of others has to be allowed to each of them, too. Pure: the same decision, once for each."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from nhi.decisions import engine
from nhi.decisions.types import Action, Condition, Decision, Facts, Match, Party

#: A principal's grant that wants each call approved says so by failing at this; any other right of its own goes first.
ASKS = Condition("approval", False, "approval_required", "Each such call waits for a person's approval.")
#: Counted when the call is let through, as the caller's own grant is.
COUNTED = Condition("budget", True)
REASONS = {"caller": "chain_unusable", "access": "chain_no_grant", "target_known": "chain_no_grant"}


@dataclass(frozen=True)
class Principal:
    """One on whose behalf something is done, and what it holds for the target."""

    name: str
    party: Party | None
    matches: tuple[Match, ...] = ()


@dataclass(frozen=True)
class Standing:
    """What the rights of all of them come to."""

    condition: Condition
    #: One of them may only do it with a person's yes.
    asks: bool = False
    #: Their grants that let it pass and limit how often, by whose they are.
    counted: Mapping[str, Match] = field(default_factory=dict)


def along(
    principals: Sequence[Principal], wanted: Action, target: Party | None, *, decision_id: UUID, at: datetime
) -> Standing:
    asks, counted = False, dict[str, Match]()
    for principal in principals:
        facts = Facts(decision_id, at, None, matches=principal.matches, conditions=(ASKS, COUNTED))
        decision = engine.decide(principal.party, wanted, target, facts)
        failed = decision.deciding
        if not decision.allowed and (failed is None or failed.name != "approval"):
            return Standing(_refused(principal, decision))
        asks = asks or not decision.allowed
        if decision.match is not None and decision.match.max_calls_per_hour is not None:
            counted[principal.name] = decision.match
    return Standing(Condition("chain", True, message=_all_may(principals)), asks, counted)


def _refused(principal: Principal, decision: Decision) -> Condition:
    failed = decision.deciding
    reason = REASONS.get(failed.name, "chain_not_allowed") if failed is not None else "chain_not_allowed"
    said = f"This is done on behalf of {principal.name}, who may not do it: {decision.message}"
    return Condition("chain", False, reason, said)


def _all_may(principals: Sequence[Principal]) -> str:
    if not principals:
        return "It is done on nobody's behalf."
    return f"{', '.join(one.name for one in principals)}, on whose behalf this is done, may do it too."
