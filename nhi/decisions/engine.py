"""Decides whether a caller may do an action: walks all checks in a fixed order, default deny.

Every decision has a reason, and any error denies. Pure: no query and no clock. The facts come from one query
(`nhi.authorization.facts`). The order of `CHECKS` determines the reason if several checks fail. `explain` uses the
same checks and shows all results.
"""

import fnmatch
import logging
from collections.abc import Callable
from dataclasses import dataclass

from nhi.choices import Kind, State, Verdict
from nhi.decisions import capabilities, json_schema
from nhi.decisions.types import (
    AccessMatch,
    CallerOrTarget,
    CheckResult,
    ConditionResult,
    Decision,
    DecisionFacts,
    RequestedAction,
)

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class CheckInput:
    """What each check reads. `match` is the grant or role that decides, once it is chosen."""

    subject: CallerOrTarget | None
    action: RequestedAction
    target: CallerOrTarget | None
    facts: DecisionFacts
    match: AccessMatch | None = None


def decide(
    subject: CallerOrTarget | None, action: RequestedAction, target: CallerOrTarget | None, facts: DecisionFacts
) -> Decision:
    """Decide whether `subject` may do `action` to `target`. Runs every check; the first failure is the reason."""
    try:
        return _decide(CheckInput(subject, action, target, facts))
    except Exception:
        # Any error denies. The traceback goes to the log, not to the caller.
        log.exception("a decision failed", extra={"decision_id": str(facts.decision_id)})
        message = "The decision could not be made, so the answer is no."
        return Decision(facts.decision_id, Verdict.DENY, "decision_failed", message, facts.decided_at)


def _decide(request: CheckInput) -> Decision:
    facts = request.facts
    request = _choose_match(request)
    checks = tuple(_run_check(name, check, request) for name, check in CHECKS)
    failed = next((check for check in checks if check.outcome == "fail"), None)
    if failed is not None:
        return Decision(
            facts.decision_id, Verdict.DENY, failed.reason, failed.message, facts.decided_at, request.match, checks
        )
    match = request.match
    if request.action.verb == "know_itself":
        reason, message = "self", "The caller asks about itself."
    elif match is not None:
        reason = "granted" if match.kind == "grant" else "role"
        message = f"Allowed by the {match.kind} {match.name}."
    else:
        raise LookupError("a call passed every check without a grant or a role")
    return Decision(facts.decision_id, Verdict.ALLOW, reason, message, facts.decided_at, match, checks)


def _choose_match(request: CheckInput) -> CheckInput:
    """Choose the grant or role that decides: the first live one whose limits the call meets, else the first one."""
    if request.action.verb == "know_itself":
        return request
    candidates = sorted(request.facts.matches, key=_match_order)
    for match in candidates:
        candidate = CheckInput(request.subject, request.action, request.target, request.facts, match)
        if match.live and all(check(candidate).outcome != "fail" for check in LIMIT_CHECKS):
            return candidate
    first = candidates[0] if candidates else None
    return CheckInput(request.subject, request.action, request.target, request.facts, first)


def _match_order(match: AccessMatch) -> tuple[bool, bool]:
    """Sort live matches first, and of two grants between the same identities the delegating one: it allows less."""
    return not match.live, match.live and not match.delegates


def _run_check(name: str, check: Callable[[CheckInput], CheckResult], request: CheckInput) -> CheckResult:
    result = check(request)
    assert result.name == name
    return result


def _check_credential(request: CheckInput) -> CheckResult:
    refusal = request.facts.credential_refusal
    if refusal is None:
        return CheckResult("credential", "skip", message="Not checked here: nobody calls.")
    if refusal:
        return CheckResult(
            "credential", "fail", refusal, CREDENTIAL_MESSAGES.get(refusal, "The credential was refused.")
        )
    return CheckResult("credential", "pass", message="The credential is live and comes from an allowed network.")


def _check_caller(request: CheckInput) -> CheckResult:
    caller = request.subject
    if caller is None:
        return CheckResult("caller", "fail", "credential_unknown", "The caller is not known.")
    if caller.state != State.ACTIVE:
        reason = f"caller_{State(caller.state).value}"
        return CheckResult("caller", "fail", reason, f"{caller.name} is {caller.state}.")
    if caller.expired:
        return CheckResult("caller", "fail", "caller_expired", f"{caller.name} has expired.")
    return CheckResult("caller", "pass", message=f"{caller.name} is active and has not expired.")


def _check_target_known(request: CheckInput) -> CheckResult:
    if request.action.verb == "know_itself":
        return CheckResult("target_known", "skip", message="The caller asks about itself.")
    if request.target is None or request.subject is None:
        return CheckResult("target_known", "fail", "no_grant", NO_GRANT_MESSAGE)
    return CheckResult("target_known", "pass", message=f"{request.target.name} is registered.")


def _check_access(request: CheckInput) -> CheckResult:
    if request.action.verb == "know_itself":
        return CheckResult("access", "skip", message="The caller asks about itself.")
    match = request.match
    if match is None:
        return CheckResult("access", "fail", "no_grant", _no_grant_message(request))
    if match.revoked:
        return CheckResult("access", "fail", f"{match.kind}_revoked", f"{_match_description(match)} was revoked.")
    if match.expired:
        return CheckResult("access", "fail", f"{match.kind}_expired", f"{_match_description(match)} has ended.")
    return CheckResult("access", "pass", message=f"{_match_description(match)} covers it.")


def _check_scope(request: CheckInput) -> CheckResult:
    scope, target = request.facts.scope, request.target
    if not scope or target is None:
        return CheckResult("scope", "skip", message="The caller's token is not narrowed.")
    capability = target.capability
    if capability and any(capabilities.matches(pattern, capability) for pattern in scope):
        return CheckResult("scope", "pass", message="The token's scope covers it.")
    return CheckResult("scope", "fail", "scope_not_allowed", f"The token's scope does not cover {target.name}.")


def _check_target_usable(request: CheckInput) -> CheckResult:
    target = request.target
    if target is None:
        return CheckResult("target", "skip", message="Nothing is called.")
    if target.state != State.ACTIVE:
        return CheckResult("target", "fail", "target_unusable", f"{target.name} is {target.state}.")
    if target.expired:
        return CheckResult("target", "fail", "target_expired", f"{target.name} has expired.")
    return CheckResult("target", "pass", message=f"{target.name} is active and has not expired.")


def _check_arguments(request: CheckInput) -> CheckResult:
    match = request.match
    if match is None or match.allowed_parameters is None:
        return CheckResult("arguments", "skip", message="No grant limits the arguments.")
    violations = request.action.known_violations.get(match.id)
    if violations is None:
        parameters = {} if request.action.parameters is None else request.action.parameters
        violations = json_schema.find_violations(match.allowed_parameters, parameters)
    if violations:
        return CheckResult("arguments", "fail", "parameters_not_allowed", _violation_message(*violations[0]))
    return CheckResult("arguments", "pass", message="The arguments keep the grant's limits.")


def _violation_message(path: str, problem: str) -> str:
    """Return a sentence such as "`repo` is missing: the grant demands it."."""
    location = path.removeprefix("$").removeprefix(".")
    subject = f"`{location}`" if location else "The whole of the arguments"
    if problem.startswith(("the value ", "is ")):
        return f"{subject} {problem.removeprefix('the value ')}."
    return f"{subject}: {problem}."


def _check_action(request: CheckInput) -> CheckResult:
    match = request.match
    if match is None or match.allowed_actions is None:
        return CheckResult("action", "skip", message="No grant limits the actions.")
    name = request.action.name
    if not match.allowed_actions:
        return CheckResult("action", "fail", "action_not_allowed", "The grant allows no action.")
    if name is None:
        allowed = ", ".join(match.allowed_actions)
        message = f"The grant allows some actions only ({allowed}), and what is asked names none."
        return CheckResult("action", "fail", "action_not_named", message)
    if any(fnmatch.fnmatchcase(name, glob) for glob in match.allowed_actions):
        return CheckResult("action", "pass", message=f"The grant allows {name}.")
    return CheckResult("action", "fail", "action_not_allowed", f"The grant does not allow {name}.")


def _check_approval(request: CheckInput) -> CheckResult:
    match = request.match
    every_caller = request.facts.condition("every_call_approved") is not None
    if not every_caller and not (match is not None and match.requires_approval):
        return CheckResult("approval", "skip", message="Nobody needs to approve each call.")
    approval = request.facts.condition("approval")
    if approval is None:
        message = "Each call of this needs a person's approval, which cannot be given yet."
        return CheckResult("approval", "fail", "not_enforceable_yet", message)
    return _check_from_condition(approval)


def _check_budget(request: CheckInput) -> CheckResult:
    budget = request.facts.condition("budget")
    if budget is not None:
        return _check_from_condition(budget)
    if request.match is not None and request.match.max_calls_per_hour is not None:
        message = (
            "The grant limits how much is asked for in an hour, and what is asked here is not counted: send a task."
        )
        return CheckResult("budget", "fail", "not_enforceable_yet", message)
    return CheckResult("budget", "skip", message="No grant limits the calls.")


def _condition_check(name: str, skip_message: str) -> Callable[[CheckInput], CheckResult]:
    """Return a check whose result comes from a condition of a higher app."""

    def check(request: CheckInput) -> CheckResult:
        condition = request.facts.condition(name)
        return (
            CheckResult(name, "skip", message=skip_message) if condition is None else _check_from_condition(condition)
        )

    return check


def _check_from_condition(condition: ConditionResult) -> CheckResult:
    return CheckResult(condition.name, "pass" if condition.ok else "fail", condition.reason, condition.message)


#: The documented order; it determines the reason if several checks fail.
CHECKS: tuple[tuple[str, Callable[[CheckInput], CheckResult]], ...] = (
    ("credential", _check_credential),
    ("caller", _check_caller),
    ("target_known", _check_target_known),
    ("access", _check_access),
    ("scope", _check_scope),
    ("target", _check_target_usable),
    ("server", _condition_check("server", "No server stands behind it.")),
    ("definition", _condition_check("definition", "It has no definition that could change.")),
    ("chain", _condition_check("chain", "No chain of tasks leads here.")),
    ("arguments", _check_arguments),
    ("input", _condition_check("input", "Not checked: no arguments were given, or no schema describes them.")),
    ("action", _check_action),
    ("approval", _check_approval),
    ("breaker", _condition_check("breaker", "No breaker guards it.")),
    ("budget", _check_budget),
)
#: Checks of a grant's limits, which one grant may fail and another pass.
LIMIT_CHECKS: tuple[Callable[[CheckInput], CheckResult], ...] = (
    _check_arguments,
    _check_action,
    _check_approval,
    _check_budget,
)
NO_GRANT_MESSAGE = "The caller has no grant and no role that covers this."
CREDENTIAL_MESSAGES = {
    "credential_unknown": "This token is not known.",
    "credential_revoked": "This credential was revoked.",
    "credential_expired": "This credential has ended.",
    "network_not_allowed": "This credential may not be used from this network.",
    "token_expired": "This short-lived token has ended.",
    "token_stopped": "This short-lived token was made before its identity was stopped.",
    "person_inactive": "The person whose token this is was deactivated.",
    "audience_not_allowed": "This short-lived token was made for another service.",
}


def _match_description(match: AccessMatch) -> str:
    return f"The {match.kind} {match.name}"


def _no_grant_message(request: CheckInput) -> str:
    if request.subject is None or request.target is None:
        return NO_GRANT_MESSAGE
    caller, target = request.subject.name, request.target.name
    roles = " and no role that covers it" if request.target.kind == Kind.TOOL else ""
    return f"{caller} has no grant for {target}{roles}."
