"""Converts rows of the facts query to the input of a decision."""

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from common.db import clock
from mcp.choices import ApprovalState, BreakerScope, BreakerState, DefinitionState
from mcp.gateway.batch import sql
from mcp.gateway.types import CallRequest
from nhi.authorization import facts
from nhi.credentials import credentials
from nhi.credentials.tokens import ShortTokenClaims
from nhi.decisions.delegation import ChainCheck
from nhi.decisions.types import AccessMatch, CallCondition, DecisionFacts, DecisionParty

#: The two breakers of a call and the prefixes of their columns.
BREAKER_PREFIXES = ((BreakerScope.SERVER, "breaker_"), (BreakerScope.IDENTITY, "own_breaker_"))
REJECT_ALL_SCHEMA: dict[str, Any] = {"not": {}}
#: For a tool that was registered by hand or whose server was never added.
NO_SERVER_CONDITION = CallCondition("server", False, "target_unusable", "No server offers this tool.")
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
    """The row of the facts query for one call, by column name."""

    row: dict[str, Any]
    now: datetime

    def read_id(self, name: str) -> UUID | None:
        value = self.row[name]
        return value if value is None or isinstance(value, UUID) else UUID(value)

    def read_time(self, name: str) -> datetime | None:
        value = self.row[name]
        return None if value is None else clock.parse_database_time(value)

    def is_past(self, name: str) -> bool:
        ends = self.read_time(name)
        return ends is not None and ends <= self.now

    @property
    def is_identity(self) -> bool:
        return self.row["agent_id"] is not None


def read_facts(raw: tuple[Any, ...]) -> CallFacts:
    row = dict(zip(sql.FACT_COLUMNS, raw, strict=True))
    return CallFacts(row, clock.parse_database_time(row["now"]))


def read_principal_facts(raw: tuple[Any, ...]) -> CallFacts:
    row = dict(zip(sql.PRINCIPAL_COLUMNS, raw, strict=True))
    return CallFacts(row, clock.parse_database_time(row["now"]))


def build_caller(found: CallFacts) -> DecisionParty | None:
    agent_id = found.read_id("agent_id")
    if agent_id is None:
        return None
    row = found.row
    return DecisionParty(
        agent_id, row["agent_kind"], row["agent_name"], row["agent_state"], found.is_past("agent_expires")
    )


def build_target(found: CallFacts, wish: CallRequest) -> DecisionParty | None:
    """Build the target if the tool belongs to the server: `a__b` with `c` and `a` with `b__c` form the same name."""
    tool_id, row = found.read_id("tool_id"), found.row
    if tool_id is None:
        return None
    if row["server_id"] is not None and (row["server_name"], row["wire_name"]) != (wish.server, wish.tool):
        return None
    return DecisionParty(
        tool_id, "tool", row["tool_name"], row["tool_identity_state"], found.is_past("tool_expires"), row["capability"]
    )


def build_decision_facts(
    found: CallFacts, wish: CallRequest, decision_id: UUID, standing: ChainCheck | None
) -> DecisionFacts:
    token = wish.token if isinstance(wish.token, ShortTokenClaims) else None
    refused = _find_credential_refusal(found, wish)
    scope = tuple(token.scope.split()) if token else ()
    matches = tuple(match for match in (find_grant(found), find_role(found)) if match is not None)
    told = build_conditions(found, wish, standing) if found.read_id("tool_id") else ()
    return DecisionFacts(decision_id, found.now, refused, scope, matches, told)


def _find_credential_refusal(found: CallFacts, wish: CallRequest) -> str:
    row = found.row
    if row["credential_id"] is None or not found.is_identity:
        return "credential_unknown"
    ended = _read_validity(found.read_time("credential_expires"), found.read_time("credential_revoked"), found.now)
    known = credentials.CredentialFacts(
        digest=bytes(row["digest"]),
        live=not (ended["expired"] or ended["revoked"]),
        expired=ended["expired"],
        revoked=ended["revoked"],
        networks=tuple(parse_json(row["networks"])),
    )
    refused = credentials.refusal_reason(known, wish.token, wish.source, found.now)
    token = wish.token if isinstance(wish.token, ShortTokenClaims) else None
    return refused or facts.token_refusal_reason(token, found.read_time("tokens_from"), wish.audience)


def find_grant(found: CallFacts) -> AccessMatch | None:
    grant_id, row = found.read_id("grant_id"), found.row
    if grant_id is None:
        return None
    ends, closed = found.read_time("grant_expires"), found.read_time("grant_revoked")
    return AccessMatch(
        kind="grant",
        id=grant_id,
        name=f"by {row['granted_by']}",
        **_read_validity(ends, closed, found.now),
        # The caller's task checks the real schema. Until it has, this one rejects all arguments.
        allowed_parameters=REJECT_ALL_SCHEMA if row["limited"] else None,
        max_calls_per_hour=row["per_hour"],
        requires_approval=bool(row["grant_asks"]),
    )


def find_role(found: CallFacts) -> AccessMatch | None:
    covering = parse_json(found.row["role"])
    if covering is None:
        return None
    ends = clock.parse_database_time(covering["expires_at"]) if covering["expires_at"] else None
    closed = clock.parse_database_time(covering["closed"]) if covering["closed"] else None
    return AccessMatch(
        kind="role",
        id=UUID(covering["id"]),
        name=covering["name"],
        **_read_validity(ends, closed, found.now),
        role_id=UUID(covering["role_id"]),
    )


def _read_validity(ends: datetime | None, closed: datetime | None, now: datetime) -> dict[str, Any]:
    by_itself = ends is not None and (ends <= now if closed is None else closed >= ends)
    return {"expired": by_itself, "revoked": closed is not None and not by_itself, "expires_at": ends}


def build_conditions(found: CallFacts, wish: CallRequest, standing: ChainCheck | None) -> tuple[CallCondition, ...]:
    """Build the conditions that only the gateway knows, in the order of the decision's checks."""
    chain = standing.condition if standing is not None else None
    said = [_server_condition(found), _definition_condition(found), chain, _input_condition(found, wish)]
    if found.row["asks"] or (standing is not None and standing.needs_approval):
        said.append(CallCondition("every_call_approved", True))
    counted = CallCondition("budget", True, message="Counted when the call is let through.")
    said += [_approval_condition(found, wish), breaker_condition(found), counted]
    return tuple(one for one in said if one is not None)


def _server_condition(found: CallFacts) -> CallCondition:
    if found.row["server_id"] is None:
        return NO_SERVER_CONDITION
    name = found.row["server_name"]
    if not found.row["enabled"]:
        return CallCondition("server", False, "server_disabled", f"The server {name} is disabled.")
    return CallCondition("server", True, message=f"The server {name} is enabled.")


def _definition_condition(found: CallFacts) -> CallCondition | None:
    state = found.row["tool_state"]
    if state is None:
        return None
    if state in DEFINITION_REFUSALS:
        reason, message = DEFINITION_REFUSALS[DefinitionState(state)]
        return CallCondition("definition", False, reason, message)
    return CallCondition("definition", True, message="Its definition is approved.")


def _input_condition(found: CallFacts, wish: CallRequest) -> CallCondition | None:
    if wish.problem:
        return CallCondition("input", False, "invalid_parameters", wish.problem)
    definition_id = found.read_id("definition_id")
    broken = wish.checked.get(definition_id) if definition_id else None
    if not found.row["definition_checkable"] or broken is None:
        return None
    if not broken:
        return CallCondition("input", True, message="The arguments are as the tool describes them.")
    place, problem = broken[0]
    return CallCondition("input", False, "invalid_parameters", f"{place.removeprefix('$.')}: {problem}.")


def approval_terms(found: CallFacts) -> str:
    match, row = find_grant(found), found.row
    grant_id = match.id if match is not None and match.live else None
    return format_approval_terms(found.read_id("definition_id"), row["revision"], grant_id, row["epoch"])


def format_approval_terms(definition_id: UUID | None, revision: int, grant_id: UUID | None, epoch: int) -> str:
    """Format what an approval covers besides the arguments: the definition, the server's revision, the grant and the
    caller's access epoch. The approval is invalid when one of them changes."""
    return f"{definition_id}/{revision}/{grant_id}/{epoch}"


def has_approval(found: CallFacts) -> bool:
    approved = found.row["approval_state"] == ApprovalState.APPROVED and not found.is_past("approval_expires")
    return approved and found.row["approval_terms"] == approval_terms(found)


def is_exact(value: Any) -> bool:
    """Whether no other value has the same hash. Beyond 2**53, neighbouring integers hash the same (RFC 8785)."""
    if isinstance(value, dict):
        return all(map(is_exact, value.values()))
    if isinstance(value, list):
        return all(map(is_exact, value))
    return not isinstance(value, int) or abs(value) <= 2**53


def _approval_condition(found: CallFacts, wish: CallRequest) -> CallCondition:
    if has_approval(found) and is_exact(wish.arguments):
        return CallCondition("approval", True, message="A person approved this call.")
    return CallCondition("approval", False, "approval_required", "This call waits for a person's approval.")


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
        waited = (now - self.since).total_seconds()
        return max(1, int(self.recovery - waited + 0.999))


def find_tripped_breakers(found: CallFacts) -> list[BreakerFacts]:
    """Return the breakers of a call that are not closed, the server's before the identity's."""
    row = found.row
    breakers = []
    for scope, prefix in BREAKER_PREFIXES:
        state = row[f"{prefix}state"]
        if state is None or state == BreakerState.CLOSED:
            continue
        breaker_id, since = found.read_id(f"{prefix}id"), found.read_time(f"{prefix}since")
        assert breaker_id is not None  # a breaker with a state has an id and a time of its last change
        assert since is not None
        breakers.append(
            BreakerFacts(
                breaker_id, scope, BreakerState(state), row[f"{prefix}failures"], since, row[f"{prefix}recovery"],
                found.read_time(f"{prefix}probe_until"),
            )
        )  # fmt: skip
    return breakers


def find_blocking_breaker(found: CallFacts) -> BreakerFacts | None:
    """Return the first breaker that refuses the call."""
    return next((breaker for breaker in find_tripped_breakers(found) if not breaker.needs_probe(found.now)), None)


def find_probed_breakers(found: CallFacts) -> list[BreakerFacts]:
    """Return the breakers that admit one probe now. The call that may probe is chosen when its lease is written."""
    return [breaker for breaker in find_tripped_breakers(found) if breaker.needs_probe(found.now)]


def breaker_condition(found: CallFacts) -> CallCondition | None:
    row = found.row
    if row["breaker_state"] is None:
        return None
    closed = find_blocking_breaker(found)
    if closed is None:
        return CallCondition("breaker", True, message="Its breaker lets calls through.")
    return CallCondition(
        "breaker", False, "breaker_open", breaker_message(row["server_name"], closed.scope, closed.failures)
    )


def breaker_message(server_name: str, scope: BreakerScope, failures: int) -> str:
    if scope == BreakerScope.IDENTITY:
        times = f"{server_name} failed {failures} times in a row for this identity"
        return f"{times}; this identity's calls of it are refused until the next probe."
    return f"{server_name} failed {failures} times in a row; it is left alone until the next probe."


def needs_probe(found: CallFacts) -> bool:
    return bool(find_probed_breakers(found))


def parse_json(value: Any) -> Any:
    return json.loads(value) if isinstance(value, str) else value
