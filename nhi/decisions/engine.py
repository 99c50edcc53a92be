"""The one decision point: default deny, always a reason, and any error is a deny.

Pure: no query and no clock of its own. Facts come from one query (`nhi.authorization.facts`). The order of `CHECKS`
fixes the reason when several checks fail; explain walks the same list and shows all of it.
"""

import fnmatch
import logging
from collections.abc import Callable
from dataclasses import dataclass

from nhi.choices import Kind, State, Verdict
from nhi.decisions import capabilities, json_schema
from nhi.decisions.types import Action, Check, Condition, Decision, Facts, Match, Party

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Question:
    subject: Party | None
    action: Action
    target: Party | None
    facts: Facts
    match: Match | None = None


def decide(subject: Party | None, action: Action, target: Party | None, facts: Facts) -> Decision:
    """May `subject` do `action` to `target`? Walks every check; the first that fails gives the reason."""
    try:
        return _decide(Question(subject, action, target, facts))
    except Exception:
        # Whatever broke, the answer is no; the trace goes to the log, not to the caller.
        log.exception("a decision failed", extra={"decision_id": str(facts.decision_id)})
        message = "The decision could not be made, so the answer is no."
        return Decision(facts.decision_id, Verdict.DENY, "decision_failed", message, facts.decided_at)


def _decide(question: Question) -> Decision:
    facts = question.facts
    question = _with_match(question)
    checks = tuple(_run(name, check, question) for name, check in CHECKS)
    failed = next((check for check in checks if check.outcome == "fail"), None)
    if failed is not None:
        return Decision(
            facts.decision_id, Verdict.DENY, failed.reason, failed.message, facts.decided_at, question.match, checks
        )
    match = question.match
    if question.action.verb == "know_itself":
        reason, message = "self", "The caller asks about itself."
    elif match is not None:
        reason = "granted" if match.kind == "grant" else "role"
        message = f"Allowed by the {match.kind} {match.name}."
    else:
        raise LookupError("a call passed every check without a grant or a role")
    return Decision(facts.decision_id, Verdict.ALLOW, reason, message, facts.decided_at, match, checks)


def _with_match(question: Question) -> Question:
    """Pick the grant or role that decides: a live one whose limits the call keeps, else the one that says most."""
    if question.action.verb == "know_itself":
        return question
    candidates = sorted(question.facts.matches, key=_narrowest)
    for match in candidates:
        tried = Question(question.subject, question.action, question.target, question.facts, match)
        if match.live and all(check(tried).outcome != "fail" for check in LIMITS):
            return tried
    first = candidates[0] if candidates else None
    return Question(question.subject, question.action, question.target, question.facts, first)


def _narrowest(match: Match) -> tuple[bool, bool]:
    """Live ones first; of two grants between the same identities the one that gives away less."""
    return not match.live, match.live and not match.delegates


def _run(name: str, check: Callable[[Question], Check], question: Question) -> Check:
    result = check(question)
    assert result.name == name
    return result


def _credential(question: Question) -> Check:
    refused = question.facts.credential
    if refused is None:
        return Check("credential", "skip", message="Not checked here: nobody calls.")
    if refused:
        return Check("credential", "fail", refused, CREDENTIAL_SAYS.get(refused, "The credential was refused."))
    return Check("credential", "pass", message="The credential is live and comes from an allowed network.")


def _caller(question: Question) -> Check:
    caller = question.subject
    if caller is None:
        return Check("caller", "fail", "credential_unknown", "The caller is not known.")
    if caller.state != State.ACTIVE:
        reason = f"caller_{State(caller.state).value}"
        return Check("caller", "fail", reason, f"{caller.name} is {caller.state}.")
    if caller.expired:
        return Check("caller", "fail", "caller_expired", f"{caller.name} has expired.")
    return Check("caller", "pass", message=f"{caller.name} is active and has not expired.")


def _target_known(question: Question) -> Check:
    if question.action.verb == "know_itself":
        return Check("target_known", "skip", message="The caller asks about itself.")
    if question.target is None or question.subject is None:
        return Check("target_known", "fail", "no_grant", NOTHING_COVERS)
    return Check("target_known", "pass", message=f"{question.target.name} is registered.")


def _access(question: Question) -> Check:
    if question.action.verb == "know_itself":
        return Check("access", "skip", message="The caller asks about itself.")
    match = question.match
    if match is None:
        return Check("access", "fail", "no_grant", _nothing_covers(question))
    if match.revoked:
        return Check("access", "fail", f"{match.kind}_revoked", f"{_named(match)} was revoked.")
    if match.expired:
        return Check("access", "fail", f"{match.kind}_expired", f"{_named(match)} has ended.")
    return Check("access", "pass", message=f"{_named(match)} covers it.")


def _scope(question: Question) -> Check:
    scope, target = question.facts.scope, question.target
    if not scope or target is None:
        return Check("scope", "skip", message="The caller's token is not narrowed.")
    capability = target.capability
    if capability and any(capabilities.matches(pattern, capability) for pattern in scope):
        return Check("scope", "pass", message="The token's scope covers it.")
    return Check("scope", "fail", "scope_not_allowed", f"The token's scope does not cover {target.name}.")


def _target_usable(question: Question) -> Check:
    target = question.target
    if target is None:
        return Check("target", "skip", message="Nothing is called.")
    if target.state != State.ACTIVE:
        return Check("target", "fail", "target_unusable", f"{target.name} is {target.state}.")
    if target.expired:
        return Check("target", "fail", "target_expired", f"{target.name} has expired.")
    return Check("target", "pass", message=f"{target.name} is active and has not expired.")


def _arguments(question: Question) -> Check:
    match = question.match
    if match is None or match.allowed_parameters is None:
        return Check("arguments", "skip", message="No grant limits the arguments.")
    broken = question.action.checked.get(match.id)
    if broken is None:
        given = {} if question.action.parameters is None else question.action.parameters
        broken = json_schema.violations(match.allowed_parameters, given)
    if broken:
        return Check("arguments", "fail", "parameters_not_allowed", _broken(*broken[0]))
    return Check("arguments", "pass", message="The arguments keep the grant's limits.")


def _broken(place: str, problem: str) -> str:
    """`repo` is missing: the grant demands it."""
    where = place.removeprefix("$").removeprefix(".")
    subject = f"`{where}`" if where else "The whole of the arguments"
    if problem.startswith(("the value ", "is ")):
        return f"{subject} {problem.removeprefix('the value ')}."
    return f"{subject}: {problem}."


def _actions(question: Question) -> Check:
    match = question.match
    if match is None or match.allowed_actions is None:
        return Check("action", "skip", message="No grant limits the actions.")
    name = question.action.name
    if not match.allowed_actions:
        return Check("action", "fail", "action_not_allowed", "The grant allows no action.")
    if name is None:
        allowed = ", ".join(match.allowed_actions)
        said = f"The grant allows some actions only ({allowed}), and what is asked names none."
        return Check("action", "fail", "action_not_named", said)
    if any(fnmatch.fnmatchcase(name, glob) for glob in match.allowed_actions):
        return Check("action", "pass", message=f"The grant allows {name}.")
    return Check("action", "fail", "action_not_allowed", f"The grant does not allow {name}.")


def _approval(question: Question) -> Check:
    match = question.match
    every_caller = question.facts.condition("every_call_approved") is not None
    if not every_caller and not (match is not None and match.requires_approval):
        return Check("approval", "skip", message="Nobody needs to approve each call.")
    permit = question.facts.condition("approval")
    if permit is None:
        said = "Each call of this needs a person's approval, which cannot be given yet."
        return Check("approval", "fail", "not_enforceable_yet", said)
    return _as_check(permit)


def _budget(question: Question) -> Check:
    counted = question.facts.condition("budget")
    if counted is not None:
        return _as_check(counted)
    if question.match is not None and question.match.max_calls_per_hour is not None:
        said = "The grant limits how much is asked for in an hour, and what is asked here is not counted: send a task."
        return Check("budget", "fail", "not_enforceable_yet", said)
    return Check("budget", "skip", message="No grant limits the calls.")


def _told(name: str, unknown: str) -> Callable[[Question], Check]:
    """A check whose answer a higher app brings along."""

    def check(question: Question) -> Check:
        condition = question.facts.condition(name)
        return Check(name, "skip", message=unknown) if condition is None else _as_check(condition)

    return check


def _as_check(condition: Condition) -> Check:
    return Check(condition.name, "pass" if condition.ok else "fail", condition.reason, condition.message)


#: The documented order; it fixes the reason when several fail.
CHECKS: tuple[tuple[str, Callable[[Question], Check]], ...] = (
    ("credential", _credential),
    ("caller", _caller),
    ("target_known", _target_known),
    ("access", _access),
    ("scope", _scope),
    ("target", _target_usable),
    ("server", _told("server", "No server stands behind it.")),
    ("definition", _told("definition", "It has no definition that could change.")),
    ("chain", _told("chain", "No chain of tasks leads here.")),
    ("arguments", _arguments),
    ("input", _told("input", "Not checked: no arguments were given, or no schema describes them.")),
    ("action", _actions),
    ("approval", _approval),
    ("breaker", _told("breaker", "No breaker guards it.")),
    ("budget", _budget),
)
#: What one grant may fail where another passes.
LIMITS: tuple[Callable[[Question], Check], ...] = (_arguments, _actions, _approval, _budget)
NOTHING_COVERS = "The caller has no grant and no role that covers this."
CREDENTIAL_SAYS = {
    "credential_unknown": "This token is not known.",
    "credential_revoked": "This credential was revoked.",
    "credential_expired": "This credential has ended.",
    "network_not_allowed": "This credential may not be used from this network.",
    "token_expired": "This short-lived token has ended.",
    "token_stopped": "This short-lived token was made before its identity was stopped.",
    "person_inactive": "The person whose token this is was deactivated.",
    "audience_not_allowed": "This short-lived token was made for another service.",
}


def _named(match: Match) -> str:
    return f"The {match.kind} {match.name}"


def _nothing_covers(question: Question) -> str:
    if question.subject is None or question.target is None:
        return NOTHING_COVERS
    caller, target = question.subject.name, question.target.name
    roles = " and no role that covers it" if question.target.kind == Kind.TOOL else ""
    return f"{caller} has no grant for {target}{roles}."
