"""Reads the facts of calls and of their delegation chains."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from common.db import clock
from mcp.choices import ApprovalState, BreakerScope, BreakerState, DefinitionState
from mcp.gateway.batch import database
from mcp.gateway.types import CallRequest, CheckedArguments
from nhi import hooks
from nhi.authorization import facts
from nhi.credentials import credentials
from nhi.credentials.tokens import ShortTokenClaims
from nhi.decisions import delegation
from nhi.decisions.delegation import ChainCheck, DelegationChain, Principal, TaskFacts
from nhi.decisions.types import AccessMatch, CallerOrTarget, ConditionResult, DecisionFacts, RequestedAction

#: The two breakers of a call and the prefixes of their columns.
BREAKER_PREFIXES = ((BreakerScope.SERVER, "breaker_"), (BreakerScope.IDENTITY, "own_breaker_"))
REJECT_ALL_SCHEMA: dict[str, Any] = {"not": {}}
#: For a tool that was registered by hand or whose server was never added.
NO_SERVER_CONDITION = ConditionResult("server", False, "target_unusable", "No server offers this tool.")
DEFINITION_REFUSALS = {
    DefinitionState.PENDING: ("definition_pending", "Nobody has approved this tool's definition yet."),
    DefinitionState.QUARANTINED: (
        "definition_changed",
        "The server changed this tool's definition. Calls are refused until someone approves it.",
    ),
    DefinitionState.WITHDRAWN: ("definition_withdrawn", "The server no longer offers this tool."),
}


@dataclass(frozen=True)
class CallFacts:
    """The stored facts for the decision about one call: a row of the facts query, by column name."""

    row: dict[str, Any]
    now: datetime

    def read_id(self, name: str) -> UUID | None:
        value = self.row[name]
        return value if value is None or isinstance(value, UUID) else UUID(value)

    def read_time(self, name: str) -> datetime | None:
        value = self.row[name]
        return None if value is None else clock.parse_database_time(value)

    def is_past(self, name: str) -> bool:
        end_time = self.read_time(name)
        return end_time is not None and end_time <= self.now

    @property
    def is_identity(self) -> bool:
        return self.row["agent_id"] is not None


def read_facts(raw: tuple[Any, ...]) -> CallFacts:
    row = dict(zip(database.FACT_COLUMNS, raw, strict=True))
    return CallFacts(row, clock.parse_database_time(row["now"]))


def read_principal_facts(raw: tuple[Any, ...]) -> CallFacts:
    row = dict(zip(database.PRINCIPAL_COLUMNS, raw, strict=True))
    return CallFacts(row, clock.parse_database_time(row["now"]))


def build_caller(call_facts: CallFacts) -> CallerOrTarget | None:
    agent_id = call_facts.read_id("agent_id")
    if agent_id is None:
        return None
    row = call_facts.row
    return CallerOrTarget(
        agent_id, row["agent_kind"], row["agent_name"], row["agent_state"], call_facts.is_past("agent_expires")
    )


def build_target(call_facts: CallFacts, request: CallRequest) -> CallerOrTarget | None:
    """Build the target if the tool belongs to the server: `a__b` with `c` and `a` with `b__c` form the same name."""
    tool_id, row = call_facts.read_id("tool_id"), call_facts.row
    if tool_id is None:
        return None
    if row["server_id"] is not None and (row["server_name"], row["wire_name"]) != (request.server, request.tool):
        return None
    return CallerOrTarget(
        tool_id,
        "tool",
        row["tool_name"],
        row["tool_identity_state"],
        call_facts.is_past("tool_expires"),
        row["capability"],
    )


def build_decision_facts(
    call_facts: CallFacts,
    request: CallRequest,
    checked: CheckedArguments,
    decision_id: UUID,
    chain_check: ChainCheck | None,
) -> DecisionFacts:
    token = request.token if isinstance(request.token, ShortTokenClaims) else None
    credential_refusal = _find_credential_refusal(call_facts, request)
    scope = tuple(token.scope.split()) if token else ()
    matches = tuple(match for match in (find_grant(call_facts), find_role(call_facts)) if match is not None)
    conditions = build_conditions(call_facts, request, checked, chain_check) if call_facts.read_id("tool_id") else ()
    return DecisionFacts(decision_id, call_facts.now, credential_refusal, scope, matches, conditions)


def _find_credential_refusal(call_facts: CallFacts, request: CallRequest) -> str:
    row = call_facts.row
    if row["credential_id"] is None or not call_facts.is_identity:
        return "credential_unknown"
    validity = _read_validity(
        call_facts.read_time("credential_expires"), call_facts.read_time("credential_revoked"), call_facts.now
    )
    credential = credentials.CredentialFacts(
        digest=bytes(row["digest"]),
        live=not (validity["expired"] or validity["revoked"]),
        expired=validity["expired"],
        revoked=validity["revoked"],
        networks=tuple(parse_json(row["networks"])),
    )
    refusal = credentials.refusal_reason(credential, request.token, request.source, call_facts.now)
    token = request.token if isinstance(request.token, ShortTokenClaims) else None
    return refusal or facts.token_refusal_reason(token, call_facts.read_time("tokens_from"), request.audience)


def find_grant(call_facts: CallFacts) -> AccessMatch | None:
    grant_id, row = call_facts.read_id("grant_id"), call_facts.row
    if grant_id is None:
        return None
    expires_at, closed_at = call_facts.read_time("grant_expires"), call_facts.read_time("grant_revoked")
    return AccessMatch(
        kind="grant",
        id=grant_id,
        name=f"by {row['granted_by']}",
        **_read_validity(expires_at, closed_at, call_facts.now),
        # The caller's task checks the real schema. Until it has, this one rejects all arguments.
        allowed_parameters=REJECT_ALL_SCHEMA if row["limited"] else None,
        max_calls_per_hour=row["per_hour"],
        requires_approval=bool(row["grant_asks"]),
    )


def find_role(call_facts: CallFacts) -> AccessMatch | None:
    role = parse_json(call_facts.row["role"])
    if role is None:
        return None
    expires_at = clock.parse_database_time(role["expires_at"]) if role["expires_at"] else None
    closed_at = clock.parse_database_time(role["closed"]) if role["closed"] else None
    return AccessMatch(
        kind="role",
        id=UUID(role["id"]),
        name=role["name"],
        **_read_validity(expires_at, closed_at, call_facts.now),
        role_id=UUID(role["role_id"]),
    )


def _read_validity(expires_at: datetime | None, closed_at: datetime | None, now: datetime) -> dict[str, Any]:
    expired = expires_at is not None and (expires_at <= now if closed_at is None else closed_at >= expires_at)
    return {"expired": expired, "revoked": closed_at is not None and not expired, "expires_at": expires_at}


def build_conditions(
    call_facts: CallFacts, request: CallRequest, checked: CheckedArguments, chain_check: ChainCheck | None
) -> tuple[ConditionResult, ...]:
    """Build the conditions that only the gateway knows, in the order of the decision's checks."""
    chain_condition = chain_check.condition if chain_check is not None else None
    conditions = [
        _server_condition(call_facts),
        _definition_condition(call_facts),
        chain_condition,
        _input_condition(call_facts, request, checked),
    ]
    if call_facts.row["asks"] or (chain_check is not None and chain_check.needs_approval):
        conditions.append(ConditionResult("every_call_approved", True))
    budget_condition = ConditionResult("budget", True, message="Counted when the call is let through.")
    conditions += [_approval_condition(call_facts, request), breaker_condition(call_facts), budget_condition]
    return tuple(condition for condition in conditions if condition is not None)


def _server_condition(call_facts: CallFacts) -> ConditionResult:
    if call_facts.row["server_id"] is None:
        return NO_SERVER_CONDITION
    name = call_facts.row["server_name"]
    if not call_facts.row["enabled"]:
        return ConditionResult("server", False, "server_disabled", f"The server {name} is disabled.")
    return ConditionResult("server", True, message=f"The server {name} is enabled.")


def _definition_condition(call_facts: CallFacts) -> ConditionResult | None:
    state = call_facts.row["tool_state"]
    if state is None:
        return None
    if state in DEFINITION_REFUSALS:
        reason, message = DEFINITION_REFUSALS[DefinitionState(state)]
        return ConditionResult("definition", False, reason, message)
    return ConditionResult("definition", True, message="Its definition is approved.")


def _input_condition(call_facts: CallFacts, request: CallRequest, checked: CheckedArguments) -> ConditionResult | None:
    if request.problem:
        return ConditionResult("input", False, "invalid_parameters", request.problem)
    definition_id = call_facts.read_id("definition_id")
    violations = checked.get(definition_id) if definition_id else None
    if not call_facts.row["definition_checkable"] or violations is None:
        return None
    if not violations:
        return ConditionResult("input", True, message="The arguments are as the tool describes them.")
    path, problem = violations[0]
    return ConditionResult("input", False, "invalid_parameters", f"{path.removeprefix('$.')}: {problem}.")


def approval_terms(call_facts: CallFacts) -> str:
    match, row = find_grant(call_facts), call_facts.row
    grant_id = match.id if match is not None and match.live else None
    return format_approval_terms(call_facts.read_id("definition_id"), row["revision"], grant_id, row["epoch"])


def format_approval_terms(definition_id: UUID | None, revision: int, grant_id: UUID | None, epoch: int) -> str:
    """Format what an approval covers besides the arguments: the definition, the server's revision, the grant and the
    caller's access epoch. The approval is invalid when one of them changes."""
    return f"{definition_id}/{revision}/{grant_id}/{epoch}"


def has_approval(call_facts: CallFacts) -> bool:
    is_approved = call_facts.row["approval_state"] == ApprovalState.APPROVED and not call_facts.is_past(
        "approval_expires"
    )
    return is_approved and call_facts.row["approval_terms"] == approval_terms(call_facts)


def is_exact(value: Any) -> bool:
    """Whether no other value has the same hash. Beyond 2**53, neighbouring integers hash the same (RFC 8785)."""
    if isinstance(value, dict):
        return all(map(is_exact, value.values()))
    if isinstance(value, list):
        return all(map(is_exact, value))
    return not isinstance(value, int) or abs(value) <= 2**53


def _approval_condition(call_facts: CallFacts, request: CallRequest) -> ConditionResult:
    if has_approval(call_facts) and is_exact(request.arguments):
        return ConditionResult("approval", True, message="A person approved this call.")
    return ConditionResult("approval", False, "approval_required", "This call waits for a person's approval.")


@dataclass(frozen=True)
class BreakerFacts:
    """A breaker that is not closed, as read for one call."""

    id: UUID
    scope: BreakerScope
    state: BreakerState
    failures: int
    since: datetime
    recovery: int
    probe_until: datetime | None

    def needs_probe(self, now: datetime) -> bool:
        if self.state == BreakerState.OPEN:
            return (now - self.since).total_seconds() >= self.recovery
        return self.probe_until is None or self.probe_until <= now

    def seconds_until_probe(self, now: datetime) -> int:
        """Return the seconds until the next call may probe; at least 1."""
        if self.state == BreakerState.HALF_OPEN and self.probe_until is not None:
            return max(1, int((self.probe_until - now).total_seconds()))
        elapsed = (now - self.since).total_seconds()
        return max(1, int(self.recovery - elapsed + 0.999))


def find_tripped_breakers(call_facts: CallFacts) -> list[BreakerFacts]:
    """Return the breakers of a call that are not closed, the server's before the identity's."""
    row = call_facts.row
    breakers = []
    for scope, prefix in BREAKER_PREFIXES:
        state = row[f"{prefix}state"]
        if state is None or state == BreakerState.CLOSED:
            continue
        breaker_id, since = call_facts.read_id(f"{prefix}id"), call_facts.read_time(f"{prefix}since")
        assert breaker_id is not None  # a breaker with a state has an id and a time of its last change
        assert since is not None
        breakers.append(
            BreakerFacts(
                breaker_id, scope, BreakerState(state), row[f"{prefix}failures"], since, row[f"{prefix}recovery"],
                call_facts.read_time(f"{prefix}probe_until"),
            )
        )  # fmt: skip
    return breakers


def find_blocking_breaker(call_facts: CallFacts) -> BreakerFacts | None:
    """Return the first breaker that refuses the call."""
    return next(
        (breaker for breaker in find_tripped_breakers(call_facts) if not breaker.needs_probe(call_facts.now)), None
    )


def find_probed_breakers(call_facts: CallFacts) -> list[BreakerFacts]:
    """Return the breakers that admit one probe now. The call that may probe is chosen when its lease is written."""
    return [breaker for breaker in find_tripped_breakers(call_facts) if breaker.needs_probe(call_facts.now)]


def breaker_condition(call_facts: CallFacts) -> ConditionResult | None:
    row = call_facts.row
    if row["breaker_state"] is None:
        return None
    blocking = find_blocking_breaker(call_facts)
    if blocking is None:
        return ConditionResult("breaker", True, message="Its breaker lets calls through.")
    return ConditionResult(
        "breaker", False, "breaker_open", breaker_message(row["server_name"], blocking.scope, blocking.failures)
    )


def breaker_message(server_name: str, scope: BreakerScope, failures: int) -> str:
    if scope == BreakerScope.IDENTITY:
        failures_text = f"{server_name} failed {failures} times in a row for this identity"
        return f"{failures_text}; this identity's calls of it are refused until the next probe."
    return f"{server_name} failed {failures} times in a row; it is left alone until the next probe."


def needs_probe(call_facts: CallFacts) -> bool:
    return bool(find_probed_breakers(call_facts))


def parse_json(value: Any) -> Any:
    return json.loads(value) if isinstance(value, str) else value


@dataclass(frozen=True)
class CallChain:
    """The delegation chain of one call."""

    chain: DelegationChain | None = None
    #: Why the call is refused in the task that it names.
    refusal: ConditionResult | None = None
    #: Facts of the principals of the chain, each with its own access to the tool.
    principals: tuple[CallFacts, ...] = ()

    def evaluate(
        self, action: RequestedAction, target: CallerOrTarget | None, *, decision_id: UUID, facts: CallFacts
    ) -> ChainCheck | None:
        """Return the effect of the chain on the decision; None for a call without a chain."""
        if self.refusal is not None:
            return ChainCheck(self.refusal)
        if self.chain is None or target is None:
            return None
        principals = [
            _build_principal(link.name, principal_facts)
            for link, principal_facts in zip(self.chain.principals, self.principals, strict=True)
        ]
        return delegation.check_principals(principals, action, target, decision_id=decision_id, at=facts.now)


NO_CHAIN = CallChain()


def load_chains(calls: Sequence[tuple[CallFacts, CallRequest]]) -> list[CallChain]:
    """Load the chain of each call of a batch, in the order of the calls."""
    run_chains = [_parse_run_chain(facts) for facts, _ in calls]
    task_ids = [parse_task_id(request) for _, request in calls]
    if not any(run_chains) and not any(task_ids):
        return [NO_CHAIN] * len(calls)
    ids_to_load = {
        delegation.task_to_load(run_chain, task_id) for run_chain, task_id in zip(run_chains, task_ids, strict=True)
    } - {None}
    tasks = hooks.load_tasks([task_id for task_id in ids_to_load if task_id is not None])
    call_chains = [
        _resolve_chain(facts, run_chain, task_id, tasks)
        for (facts, _), run_chain, task_id in zip(calls, run_chains, task_ids, strict=True)
    ]
    return _load_principals(calls, call_chains)


def parse_task_id(request: CallRequest) -> UUID | None:
    """Return the task id if the caller's task id is a UUID. Other values are only logged as the caller's own id."""
    task_id = request.context.task_id
    if not task_id:
        return None
    try:
        return UUID(task_id)
    except ValueError:
        return None


def _parse_run_chain(facts: CallFacts) -> DelegationChain | None:
    value = facts.row["run_chain"]
    return delegation.chain_from_json(parse_json(value)) if value is not None else None


def _resolve_chain(facts: CallFacts, run_chain: DelegationChain | None, task_id: UUID | None, tasks: Any) -> CallChain:
    holder = facts.read_id("agent_id")
    if (run_chain is None and task_id is None) or holder is None:
        return NO_CHAIN
    tasks_by_id: dict[UUID, TaskFacts] = tasks
    chain_or_refusal = delegation.resolve_chain(run_chain, task_id, holder, tasks_by_id)
    return (
        CallChain(refusal=chain_or_refusal)
        if isinstance(chain_or_refusal, ConditionResult)
        else CallChain(chain_or_refusal)
    )


def _load_principals(calls: Sequence[tuple[CallFacts, CallRequest]], call_chains: list[CallChain]) -> list[CallChain]:
    """Load the principals of all chains in one query; no query when there are none."""
    lookups = [
        (number, link.id, request.name)
        for number, ((facts, request), call_chain) in enumerate(zip(calls, call_chains, strict=True))
        if call_chain.chain is not None and facts.read_id("tool_id") is not None
        for link in call_chain.chain.principals
    ]
    if not lookups:
        return call_chains
    rows = database.load_principals([(identity_id, name) for _, identity_id, name in lookups])
    facts_by_number: dict[int, list[CallFacts]] = {}
    for (number, _, _), row in zip(lookups, rows, strict=True):
        facts_by_number.setdefault(number, []).append(read_principal_facts(row))
    return [
        CallChain(call_chain.chain, call_chain.refusal, tuple(facts_by_number.get(number, ())))
        for number, call_chain in enumerate(call_chains)
    ]


def _build_principal(name: str, facts: CallFacts) -> Principal:
    matches = (find_grant(facts), find_role(facts))
    return Principal(name, build_caller(facts), tuple(match for match in matches if match is not None))
