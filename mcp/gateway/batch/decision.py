"""Builds the decision of one call and its log row."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from common.ids import uuid7
from mcp.choices import BreakerScope
from mcp.gateway.batch.facts import (
    NO_CHAIN,
    CallChain,
    CallFacts,
    build_caller,
    build_decision_facts,
    build_target,
    find_blocking_breaker,
    find_grant,
)
from mcp.gateway.types import CallRefusal, CallRequest, CheckedArguments, SchemasNeeded
from nhi.audit import invocations
from nhi.credentials.tokens import ShortTokenClaims
from nhi.decisions import engine, reasons
from nhi.decisions.delegation import ChainCheck
from nhi.decisions.types import AccessMatch, CheckResult, Decision, RequestedAction

#: Checks that come before the arguments. When one of these fails, the arguments are not checked.
CHECKS_BEFORE_ARGUMENTS = frozenset(
    {"credential", "caller", "target_known", "access", "scope", "target", "server", "definition"}
)
CREDENTIAL_CHECKS = frozenset({"credential", "caller"})
#: The chain's reason that depends on the arguments.
CHAIN_ARGUMENTS_REASON = "chain_not_allowed"


@dataclass
class DecidedCall:
    """A decided call of the current batch, before the worker makes it a lease or a refusal.

    `row` is the unfinished log row. It is None if the caller is not authenticated.
    """

    request: CallRequest
    facts: CallFacts
    decision: Decision
    #: Violations of the schemas that the arguments were checked against.
    checked: CheckedArguments
    call_chain: CallChain = NO_CHAIN
    chain_check: ChainCheck | None = None
    row: dict[str, Any] | None = None

    @property
    def log_row(self) -> dict[str, Any]:
        assert self.row is not None  # every call of a known identity has one
        return self.row

    @property
    def needs_approval(self) -> bool:
        return self.decision.reason == "approval_required"

    @property
    def uses_approval(self) -> bool:
        """Whether the call passed its approval check. Only a call that needs an approval uses it up."""
        return any(check.name == "approval" and check.outcome == "pass" for check in self.decision.checks)


def decide_call(
    facts: CallFacts, request: CallRequest, checked: CheckedArguments, call_chain: CallChain = NO_CHAIN
) -> DecidedCall:
    caller, target, decision_id = build_caller(facts), build_target(facts, request), uuid7()
    # Arguments that could not be parsed violate the tool's schema; no grant's limit is reported as violated.
    violations = {grant.id: () for grant in _find_grants(facts, call_chain)} if request.problem else checked
    action = RequestedAction("call", None, known_violations=violations)
    chain_check = call_chain.evaluate(action, target, decision_id=decision_id, facts=facts)
    decision = engine.decide(
        caller, action, target, build_decision_facts(facts, request, checked, decision_id, chain_check)
    )
    pending = DecidedCall(request, facts, decision, checked, call_chain, chain_check)
    if not is_unauthenticated(pending):
        pending.row = _begin_log_row(pending)
    return pending


def is_unauthenticated(pending: DecidedCall) -> bool:
    """Whether the token gives no valid identity. Such an attempt is counted and attributed to no identity."""
    failed_check = pending.decision.failed_check
    return not pending.facts.is_identity or (failed_check is not None and failed_check.name in CREDENTIAL_CHECKS)


def find_unchecked_schemas(pending: DecidedCall) -> SchemasNeeded | None:
    """Return the schemas that the arguments must still be checked against before the decision is final."""
    failed_check, facts, checked = pending.decision.failed_check, pending.facts, pending.checked
    if is_unauthenticated(pending) or pending.request.problem or (failed_check is not None and _is_final(failed_check)):
        return None
    definition_id = facts.read_id("definition_id")
    limited_grants = [
        grant
        for grant in _find_grants(facts, pending.call_chain)
        if grant.live and grant.allowed_parameters is not None
    ]
    grants = tuple(grant.id for grant in limited_grants if grant.id not in checked)
    needs_definition = definition_id is not None and facts.row["definition_checkable"] and definition_id not in checked
    definitions = (definition_id,) if definition_id is not None and needs_definition else ()
    return SchemasNeeded(grants, definitions) if grants or definitions else None


def _find_grants(facts: CallFacts, call_chain: CallChain) -> list[AccessMatch]:
    """Return the grants for the tool of the caller and of all principals of the chain."""
    candidates = (find_grant(party_facts) for party_facts in (facts, *call_chain.principals))
    return [grant for grant in candidates if grant is not None]


def _is_final(failed_check: CheckResult) -> bool:
    """Whether this check refuses the call whatever the arguments are."""
    return failed_check.name in CHECKS_BEFORE_ARGUMENTS or (
        failed_check.name == "chain" and failed_check.reason != CHAIN_ARGUMENTS_REASON
    )


def _begin_log_row(pending: DecidedCall) -> dict[str, Any]:
    request, facts, match = pending.request, pending.facts, pending.decision.match
    agent_id = facts.read_id("agent_id")
    assert agent_id is not None  # the caller is authenticated
    context, chain = request.context, pending.call_chain.chain
    row = invocations.begin(
        call_id=request.call_id,
        at=facts.now,
        agent=(agent_id, facts.row["agent_name"]),
        tool_id=facts.read_id("tool_id"),
        tool_name=request.server,
        method=request.tool,
        args_hash=request.args_hash,
        request_id=request.request_id,
        source=request.source,
        thread_id=context.thread_id,
        session_id=context.session_id,
        task_id=str(chain.task_id) if chain is not None and chain.task_id else context.task_id,
        callers=chain.callers if chain is not None else (),
        run_id=request.token.execution_id if isinstance(request.token, ShortTokenClaims) else None,
        decision_id=pending.decision.id,
        details={"door": request.entry_point},
    )
    if match is not None:
        row["grant_id"] = match.id if match.kind == "grant" else None
        row["role_id"] = match.role_id
        row["agent_role"] = match.name if match.kind == "role" else ""
    if facts.row["breaker_state"]:
        row["details"]["breaker"] = _describe_breaker(facts)
    return row


def _describe_breaker(facts: CallFacts) -> dict[str, Any]:
    """Describe the breaker that refuses the call, or else the server's breaker."""
    breaker = find_blocking_breaker(facts)
    if breaker is not None:
        return {"state": breaker.state.value, "failures": breaker.failures, "scope": breaker.scope.value}
    row = facts.row
    return {"state": row["breaker_state"], "failures": row["breaker_failures"], "scope": BreakerScope.SERVER.value}


def refuse_call(
    pending: DecidedCall, reason: str, message: str, **refusal_fields: Any
) -> tuple[CallRefusal, dict[str, Any] | None]:
    """Build the refusal and the finished log row."""
    kind = reasons.outcome_of(reason)
    refusal = CallRefusal(
        pending.request.call_id, reason, message, tool_is_visible=kind != reasons.HIDDEN,
        unknown_bearer=pending.row is None, **refusal_fields,
    )  # fmt: skip
    if pending.row is None:
        return refusal, None
    more_details = {"decision": [_describe_check(check, pending, reason) for check in pending.decision.checks]}
    log_row = invocations.end(
        pending.row,
        status=kind.log_status,
        reason=reason,
        error_code=kind.error_code,
        error_message=message,
        details=more_details,
    )
    return refusal, log_row


def _describe_check(check: CheckResult, pending: DecidedCall, reason: str) -> list[str]:
    """Describe a check as it was decided. Budgets are consumed after the decision, so their refusal overrides it."""
    if check.name == "budget" and pending.decision.allowed and reason != pending.decision.reason:
        return [check.name, "fail", reason]
    return [check.name, check.outcome, check.reason]


def refuse_as_decided(pending: DecidedCall) -> tuple[CallRefusal, dict[str, Any] | None]:
    decision, refusal_fields = pending.decision, dict[str, Any]()
    if decision.reason == "breaker_open":
        breaker = find_blocking_breaker(pending.facts)
        assert breaker is not None  # the reason comes from a blocking breaker
        refusal_fields["retry_after"] = breaker.seconds_until_probe(pending.facts.now)
        refusal_fields["breaker_scope"] = breaker.scope.value
    if decision.reason == "invalid_parameters":
        refusal_fields["fields"] = _find_schema_problems(pending)
    if decision.reason == "parameters_not_allowed" and decision.match is not None:
        refusal_fields["fields"] = _to_request_fields(pending.checked.get(decision.match.id, ()))
    return refuse_call(pending, decision.reason, decision.message, **refusal_fields)


def _find_schema_problems(pending: DecidedCall) -> tuple[tuple[str, str], ...]:
    if pending.request.problem:
        return pending.request.problem_fields
    definition_id = pending.facts.read_id("definition_id")
    return _to_request_fields(pending.checked.get(definition_id, ()) if definition_id else ())


def _to_request_fields(problems: Sequence[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Convert paths in the arguments to field names of the request body."""
    return tuple(
        (f"parameters.{path.removeprefix('$').removeprefix('.')}".rstrip("."), message) for path, message in problems
    )
