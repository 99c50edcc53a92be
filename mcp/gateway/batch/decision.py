"""Builds the decision of one call and its log row."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from common.ids import uuid7
from mcp.choices import BreakerScope
from mcp.gateway.batch import chaining, reading
from mcp.gateway.batch.chaining import CallChain
from mcp.gateway.batch.reading import CallFacts
from mcp.gateway.types import CallRefusal, CallRequest, SchemasNeeded
from nhi.audit import invocations
from nhi.choices import CallStatus
from nhi.credentials.tokens import ShortTokenClaims
from nhi.decisions import engine
from nhi.decisions.delegation import ChainCheck
from nhi.decisions.types import AccessMatch, CheckResult, Decision, RequestedAction

#: Checks that come before the arguments. When one of these fails, the arguments are not checked.
CHECKS_BEFORE_ARGUMENTS = frozenset(
    {"credential", "caller", "target_known", "access", "scope", "target", "server", "definition"}
)
CREDENTIAL_CHECKS = frozenset({"credential", "caller"})
#: The chain's reason that depends on the arguments.
CHAIN_ARGUMENTS_REASON = "chain_not_allowed"
#: Log status and REST error code of each refusal reason. Other reasons have DENIED_STATUS.
REFUSAL_STATUS: dict[str, tuple[str, str]] = {
    "no_grant": (CallStatus.PERMISSION_DENIED, "NotFound"),
    "invalid_parameters": (CallStatus.ERROR, "InvalidParameters"),
    "breaker_open": (CallStatus.ERROR, "ExecutionFailed"),
    "rate_exceeded": (CallStatus.RATE_LIMITED, "RateLimitExceeded"),
    "quota_exceeded": (CallStatus.RATE_LIMITED, "RateLimitExceeded"),
    "concurrency_exceeded": (CallStatus.RATE_LIMITED, "RateLimitExceeded"),
}
DENIED_STATUS = (CallStatus.PERMISSION_DENIED, "Unauthorized")


@dataclass
class PendingCall:
    """A call between decision and lease: its request, facts, decision and unfinished log row."""

    request: CallRequest
    facts: CallFacts
    decision: Decision
    call_chain: CallChain = chaining.NO_CHAIN
    chain_verdict: ChainCheck | None = None
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


def decide_call(found: CallFacts, wish: CallRequest, behind: CallChain = chaining.NO_CHAIN) -> PendingCall:
    caller, target, decision_id = reading.build_caller(found), reading.build_target(found, wish), uuid7()
    # Arguments that could not be parsed violate the tool's schema; no grant's limit is reported as violated.
    checked = {grant.id: () for grant in _find_grants(found, behind)} if wish.problem else wish.checked
    action = RequestedAction("call", None, known_violations=checked)
    standing = behind.evaluate(action, target, decision_id=decision_id, found=found)
    decision = engine.decide(caller, action, target, reading.build_decision_facts(found, wish, decision_id, standing))
    draft = PendingCall(wish, found, decision, behind, standing)
    if not is_unauthenticated(draft):
        draft.row = _begin_log_row(draft)
    return draft


def is_unauthenticated(draft: PendingCall) -> bool:
    """Whether the token gives no valid identity. Such an attempt is counted and attributed to no identity."""
    failed = draft.decision.failed_check
    return not draft.facts.is_identity or (failed is not None and failed.name in CREDENTIAL_CHECKS)


def find_unchecked_schemas(draft: PendingCall) -> SchemasNeeded | None:
    """Return the schemas that the arguments must still be checked against before the decision is final."""
    failed, found, checked = draft.decision.failed_check, draft.facts, draft.request.checked
    if is_unauthenticated(draft) or draft.request.problem or (failed is not None and _is_final(failed)):
        return None
    definition_id = found.read_id("definition_id")
    limited = [one for one in _find_grants(found, draft.call_chain) if one.live and one.allowed_parameters is not None]
    grants = tuple(one.id for one in limited if one.id not in checked)
    wanted = definition_id is not None and found.row["definition_checkable"] and definition_id not in checked
    definitions = (definition_id,) if definition_id is not None and wanted else ()
    return SchemasNeeded(grants, definitions) if grants or definitions else None


def _find_grants(found: CallFacts, behind: CallChain) -> list[AccessMatch]:
    """Return the grants for the tool of the caller and of all principals of the chain."""
    held = (reading.find_grant(one) for one in (found, *behind.principals))
    return [grant for grant in held if grant is not None]


def _is_final(failed: CheckResult) -> bool:
    """Whether this check refuses the call whatever the arguments are."""
    return failed.name in CHECKS_BEFORE_ARGUMENTS or (
        failed.name == "chain" and failed.reason != CHAIN_ARGUMENTS_REASON
    )


def _begin_log_row(draft: PendingCall) -> dict[str, Any]:
    wish, found, match = draft.request, draft.facts, draft.decision.match
    agent_id = found.read_id("agent_id")
    assert agent_id is not None  # the caller is authenticated
    around, chain = wish.context, draft.call_chain.chain
    row = invocations.begin(
        call_id=wish.call_id,
        at=found.now,
        agent=(agent_id, found.row["agent_name"]),
        tool_id=found.read_id("tool_id"),
        tool_name=wish.server,
        method=wish.tool,
        args_hash=wish.args_hash,
        request_id=wish.request_id,
        source=wish.source,
        thread_id=around.thread_id,
        session_id=around.session_id,
        task_id=str(chain.task_id) if chain is not None and chain.task_id else around.task_id,
        above=chain.callers if chain is not None else (),
        run_id=wish.token.execution_id if isinstance(wish.token, ShortTokenClaims) else None,
        decision_id=draft.decision.id,
        details={"door": wish.entry_point},
    )
    if match is not None:
        row["grant_id"] = match.id if match.kind == "grant" else None
        row["role_id"] = match.role_id
        row["agent_role"] = match.name if match.kind == "role" else ""
    if found.row["breaker_state"]:
        row["details"]["breaker"] = _describe_breaker(found)
    return row


def _describe_breaker(found: CallFacts) -> dict[str, Any]:
    """Describe the breaker that refuses the call, or else the server's breaker."""
    closed = reading.find_blocking_breaker(found)
    if closed is not None:
        return {"state": closed.state.value, "failures": closed.failures, "scope": closed.scope.value}
    row = found.row
    return {"state": row["breaker_state"], "failures": row["breaker_failures"], "scope": BreakerScope.SERVER.value}


def refuse_call(
    draft: PendingCall, reason: str, message: str, **more: Any
) -> tuple[CallRefusal, dict[str, Any] | None]:
    """Build the refusal and the finished log row."""
    status, error_code = REFUSAL_STATUS.get(reason, DENIED_STATUS)
    refusal = CallRefusal(
        draft.request.call_id, status, reason, message, tool_is_visible=reason != "no_grant", error_code=error_code,
        unknown_bearer=draft.row is None, **more,
    )  # fmt: skip
    if draft.row is None:
        return refusal, None
    more_details = {"decision": [_describe_check(check, draft, reason) for check in draft.decision.checks]}
    ended = invocations.end(
        draft.row, status=status, reason=reason, error_code=error_code, error_message=message, details=more_details
    )
    return refusal, ended


def _describe_check(check: CheckResult, draft: PendingCall, reason: str) -> list[str]:
    """Describe a check as it was decided. Budgets are consumed after the decision, so their refusal overrides it."""
    if check.name == "budget" and draft.decision.allowed and reason != draft.decision.reason:
        return [check.name, "fail", reason]
    return [check.name, check.outcome, check.reason]


def refuse_as_decided(draft: PendingCall) -> tuple[CallRefusal, dict[str, Any] | None]:
    decision, more = draft.decision, dict[str, Any]()
    if decision.reason == "breaker_open":
        closed = reading.find_blocking_breaker(draft.facts)
        assert closed is not None  # the reason comes from a blocking breaker
        more["retry_after"] = closed.seconds_until_probe(draft.facts.now)
        more["breaker_scope"] = closed.scope.value
    if decision.reason == "invalid_parameters":
        more["fields"] = _find_schema_problems(draft)
    if decision.reason == "parameters_not_allowed" and decision.match is not None:
        more["fields"] = _to_request_fields(draft.request.checked.get(decision.match.id, ()))
    return refuse_call(draft, decision.reason, decision.message, **more)


def _find_schema_problems(draft: PendingCall) -> tuple[tuple[str, str], ...]:
    if draft.request.problem:
        return draft.request.problem_fields
    definition_id = draft.facts.read_id("definition_id")
    return _to_request_fields(draft.request.checked.get(definition_id, ()) if definition_id else ())


def _to_request_fields(problems: Sequence[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Convert paths in the arguments to field names of the request body."""
    return tuple(
        (f"parameters.{place.removeprefix('$').removeprefix('.')}".rstrip("."), message) for place, message in problems
    )
