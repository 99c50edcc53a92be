"""Explains why a caller may or may not call a target, with all checks and remedies."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from common.db.clock import MAX_TIME
from common.errors import InvalidInput, NotFound
from nhi import hooks
from nhi.actors import Actor
from nhi.authorization import facts, work_conditions
from nhi.decisions import engine, reasons
from nhi.decisions.types import AccessMatch, CallerOrTarget, CheckResult, Decision, RequestedAction
from nhi.models import Identity


@dataclass(frozen=True)
class Explanation:
    """The decision about a possible call, and what would change it."""

    decision: Decision
    caller: CallerOrTarget
    target: CallerOrTarget
    #: The remedies: one sentence for each failed check.
    would_pass: tuple[str, ...]
    #: Every other grant and role that covers the target, including ended ones.
    also: tuple[AccessMatch, ...] = ()
    #: Limits without effect, because a role covers the target without them.
    warnings: tuple[str, ...] = ()

    @property
    def checks(self) -> tuple[CheckResult, ...]:
        return self.decision.checks

    @property
    def decided_by(self) -> tuple[str, UUID | None, str]:
        """Return kind, id and name of the deciding check, grant or role."""
        failed, match = self.decision.failed_check, self.decision.match
        if failed is not None and not _concerns_match(failed, match):
            return "check", None, failed.name
        if match is not None:
            return match.kind, match.id, match.name
        return "check", None, failed.name if failed else "decision"


def explain(
    *, actor: Actor, caller_id: UUID, target_id: UUID, parameters: Any = None, action: str | None = None,
    at: datetime | None = None, task_id: UUID | None = None,
) -> Explanation:  # fmt: skip
    """Run every check for a hypothetical call. Caller and target must be visible to the actor.

    With a task, decide as if the caller acted within that task and on behalf of its principals.
    """
    visible = Identity.objects.visible_to(actor).filter(pk__in={caller_id, target_id}).count()
    if visible < len({caller_id, target_id}):
        raise NotFound
    if at is not None and at >= MAX_TIME:
        raise InvalidInput.for_field("at", f"Choose a time before the year {MAX_TIME.year}.")
    loaded_facts = facts.for_question(caller_id, target_id, at=at)
    if at is not None and at < loaded_facts.facts.decided_at:
        raise InvalidInput.for_field("at", "Choose now or a time to come; what was decided before is in the record.")
    assert loaded_facts.caller is not None  # both were visible just now, and identities are never deleted
    assert loaded_facts.target is not None
    requested_action = RequestedAction("call", parameters, name=action)
    chain_check = work_conditions.check_work_context(
        loaded_facts, requested_action, task_id=task_id, visible_to=actor, at=at
    )
    conditions = (
        *hooks.load_conditions(caller_id, target_id, parameters),
        *work_conditions.hourly_quota_conditions(loaded_facts),
        *work_conditions.chain_conditions(chain_check),
    )
    decision_facts = replace(loaded_facts.facts, conditions=conditions)
    decision = engine.decide(loaded_facts.caller, requested_action, loaded_facts.target, decision_facts)
    would_pass = _remedy_sentences(decision, loaded_facts.caller, loaded_facts.target)
    other_matches = tuple(match for match in loaded_facts.facts.matches if match != decision.match)
    return Explanation(
        decision,
        loaded_facts.caller,
        loaded_facts.target,
        would_pass,
        other_matches,
        void_limits(loaded_facts.facts.matches),
    )


def void_limits(matches: Sequence[AccessMatch]) -> tuple[str, ...]:
    """Return a sentence for each grant whose limits a role overrides, because access is the union of both."""
    role = next((match for match in matches if match.kind == "role" and match.live), None)
    if role is None:
        return ()
    limited = [match for match in matches if match.kind == "grant" and match.live and _limits_description(match)]
    return tuple(
        f"The grant {grant.name} {_limits_description(grant)}, but the role {role.name} covers the tool without that: "
        "calls that the grant does not allow pass by the role."
        for grant in limited
    )


def _limits_description(match: AccessMatch) -> str:
    """Describe the limits that a role overrides. The hourly limit is not among them: such a grant always counts."""
    words = ["limits the arguments"] if match.allowed_parameters is not None else []
    return " and ".join([*words, *(["asks for approval"] if match.requires_approval else [])])


def _remedy_sentences(decision: Decision, caller: CallerOrTarget, target: CallerOrTarget) -> tuple[str, ...]:
    failed = [check for check in decision.checks if check.outcome == "fail"]
    sentences = [
        reasons.remedy(check.reason, check=check.name, caller=caller.name, target=target.name) for check in failed
    ]
    return tuple(dict.fromkeys(sentences))


def _concerns_match(check: CheckResult, match: AccessMatch | None) -> bool:
    """Whether the failed check concerns the grant itself: its expiry or its limits."""
    return match is not None and check.name in {"access", "arguments", "action", "approval", "budget"}
