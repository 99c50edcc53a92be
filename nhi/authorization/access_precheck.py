"""Answers an identity that asks whether it may call a target; records the answer and consumes no budget."""

import hashlib
from dataclasses import replace
from typing import Any
from uuid import UUID

from common import canonical_json, context
from common.errors import NotAllowed
from nhi import hooks
from nhi.actors import Actor
from nhi.audit import refusal_limits
from nhi.authorization import facts, work_conditions
from nhi.credentials import tokens
from nhi.decisions import engine
from nhi.decisions.types import Decision, RequestedAction
from nhi.validation import MAX_ACTION_LENGTH, Problems


class CallerNotIdentity(NotAllowed):
    """Raised for people, who are never callers of tools."""

    code = "identities_only"


def check(
    *, actor: Actor, token: tokens.ParsedBearerToken | None, audience: str, target_id: UUID, parameters: Any,
    action: str | None, task_id: UUID | None = None,
) -> Decision:  # fmt: skip
    """Decide whether the bearer of the token may call the target.

    A target that does not exist gets the same answer as one without any grant.
    """
    if token is None or actor.is_person:
        raise CallerNotIdentity("Only an identity asks for itself; people ask why with decisions/explain.")
    problems = Problems()
    problems.check_line("action", action or "", max_length=MAX_ACTION_LENGTH)
    problems.raise_if_any()
    loaded_facts = facts.for_token(token, context.current().source, target_id, audience=audience)
    requested_action = RequestedAction("call", parameters, name=action)
    chain_check = work_conditions.check_work_context(
        loaded_facts, requested_action, run_chain=work_conditions.run_chain_of(loaded_facts), task_id=task_id
    )
    conditions = hooks.load_conditions(actor.id, target_id, parameters) if actor.id and loaded_facts.target else ()
    conditions = (
        *conditions,
        *work_conditions.hourly_quota_conditions(loaded_facts),
        *work_conditions.chain_conditions(chain_check),
    )
    decision = engine.decide(
        loaded_facts.caller, requested_action, loaded_facts.target, replace(loaded_facts.facts, conditions=conditions)
    )
    refusal_limits.write_limited_event(
        "decision.allowed" if decision.allowed else "decision.denied",
        actor=actor,
        subject_kind="identity",
        subject_id=target_id,
        subject_name=loaded_facts.target.name if loaded_facts.target else "what is not registered",
        exists=loaded_facts.target is not None,
        details=_audit_details(decision, parameters, action),
        reason=decision.reason,
    )
    return decision


def _audit_details(decision: Decision, parameters: Any, action: str | None) -> dict[str, Any]:
    match = decision.match
    return {
        "decision": decision.verdict,
        "reason": decision.reason,
        "decision_id": str(decision.id),
        "decided_at": decision.decided_at.isoformat(),
        "matched": {"kind": match.kind, "id": str(match.id), "name": match.name} if match else None,
        "action": action,
        "args_hash": hashlib.sha256(canonical_json.encode(parameters or {})).hexdigest(),
    }
