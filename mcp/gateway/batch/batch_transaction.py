"""Decides a batch; writes leases, budget slots and refusals in one transaction."""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import transaction

from common.context import RequestContext, bind_context
from common.errors import RecordUnavailable
from common.ids import uuid7
from mcp.gateway.batch import budget_store, call_approvals, database, decision
from mcp.gateway.batch.decision import DecidedCall
from mcp.gateway.batch.facts import find_probed_breakers, find_tripped_breakers, load_chains, needs_probe, read_facts
from mcp.gateway.batch.fair_queue import caller_keys
from mcp.gateway.types import CallDecision, CallLease, CallRefusal, CallRequest, CheckedArguments, SchemasNeeded
from mcp.limits import breakers, budget_state
from mcp.limits.budget_state import BudgetState, RemainingQuota
from mcp.models import Call, CallSlot, ToolDefinition
from nhi.audit import authentication_failures, invocations, refusal_limits, row_macs
from nhi.credentials import last_used
from nhi.credentials.tokens import ParsedCredentialToken
from nhi.models import InvocationLog, ToolPermission

#: Lifetime of a lease. The process that makes the call renews it; a call with an expired lease counts as lost.
LEASE_DURATION = timedelta(seconds=30)
LEASE_GRACE = timedelta(seconds=10)

DecisionsByCall = dict[UUID, CallDecision | None]


class AccessChanged(Exception):
    """The callers' access changed between reading and writing. The transaction of the batch is rolled back."""

    def __init__(self, calls: set[UUID]) -> None:
        super().__init__()
        self.calls = calls


class ReservationBatch:
    """The pending calls of one batch, with the leases, slots and rows to write."""

    def __init__(self, pending_calls: Sequence[DecidedCall]) -> None:
        self.pending_calls = pending_calls
        self.decisions: DecisionsByCall = {}
        self.rows: list[dict[str, Any]] = []
        self.leases: list[tuple[DecidedCall, CallLease, datetime]] = []
        self.slots: list[dict[str, Any]] = []

    def refuse(self, pending: DecidedCall, refusal_and_row: tuple[CallRefusal, dict[str, Any] | None]) -> None:
        refusal, row = refusal_and_row
        self.decisions[pending.request.call_id] = refusal
        if row is not None:
            self.rows.append(row)

    def write(self, *, all_or_nothing: bool) -> None:
        """Write leases, slots and refusals. In a shared transaction, one missing lease rolls back the batch."""
        written = write_leases(self.leases, self.slots)
        missing = {pending.request.call_id for pending, _, _ in self.leases} - written
        if missing and all_or_nothing:
            raise AccessChanged(missing)
        for pending, lease, _ in self.leases:
            self.decisions[pending.request.call_id] = lease if pending.request.call_id in written else None
        if self.rows:
            counted_ids = self._count_refusals()
            database.insert_rows(InvocationLog, [row for row in self.rows if row["id"] not in counted_ids])

    def _count_refusals(self) -> set[UUID]:
        """Return the refused calls beyond one identity's limit of rows per minute. They are counted and get no row."""
        # The first call that waits for an approval shares its id with it and always gets a row. Few can wait at once.
        counted_ids = refusal_limits.limit_calls([row for row in self.rows if not _is_first_approval_request(row)])
        for call_id in counted_ids:
            refusal = self.decisions[call_id]
            assert isinstance(refusal, CallRefusal)  # only refusals have rows here
            self.decisions[call_id] = replace(refusal, recorded=False)
        return counted_ids


def reserve_calls(checked_requests: Sequence[tuple[CallRequest, CheckedArguments]]) -> DecisionsByCall:
    """Return a decision for each request; None for a call that must be decided again."""
    lookups = [_facts_parameters(request) for request, _ in checked_requests]
    facts_of_calls = [read_facts(row) for row in database.load_facts(lookups)]
    requests = [request for request, _ in checked_requests]
    call_chains = load_chains(list(zip(facts_of_calls, requests, strict=True)))
    pending_calls = [
        decision.decide_call(facts, request, checked, call_chain)
        for facts, (request, checked), call_chain in zip(facts_of_calls, checked_requests, call_chains, strict=True)
    ]
    if not all(pending.facts.row["recordable"] for pending in pending_calls):
        raise RecordUnavailable
    _record_credential_uses(pending_calls)
    needed_by_call = {
        pending.request.call_id: schemas_needed
        for pending in pending_calls
        if (schemas_needed := decision.find_unchecked_schemas(pending))
    }
    ready = [pending for pending in pending_calls if pending.request.call_id not in needed_by_call]
    return {**attach_schemas(needed_by_call), **(_write_unless_stale(ready) if ready else {})}


def _record_credential_uses(pending_calls: Sequence[DecidedCall]) -> None:
    for pending in pending_calls:
        credential_id = pending.facts.read_id("credential_id")
        if credential_id is not None and not decision.is_unauthenticated(pending):
            use = last_used.CredentialUse(pending.facts.now, pending.request.source, pending.facts.read_id("agent_id"))
            last_used.recorder.record(credential_id, use)
            caller_keys.remember(pending.request.token, pending.log_row["agent_id"])


def _write_unless_stale(pending_calls: Sequence[DecidedCall]) -> DecisionsByCall:
    try:
        return _write_batch(pending_calls)
    except AccessChanged as error:
        unchanged = [pending for pending in pending_calls if pending.request.call_id not in error.calls]
        return dict.fromkeys(error.calls) | _write_unless_stale(unchanged)


def _write_batch(pending_calls: Sequence[DecidedCall]) -> DecisionsByCall:
    batch = ReservationBatch(pending_calls)
    if all(
        pending.decision.allowed and not budget_store.has_budgets(pending) and not _needs_exclusive_rows(pending)
        for pending in pending_calls
    ):
        # The usual case. A single writing statement needs no transaction.
        for pending in pending_calls:
            _add_lease(batch, pending, [], pending.facts.now)
        with transaction.atomic() if not database.is_postgresql() else nullcontext():
            batch.write(all_or_nothing=False)
        return batch.decisions
    with transaction.atomic():
        _count_unauthenticated(pending_calls)
        _consume_budgets(batch, [pending for pending in pending_calls if pending.decision.allowed])
        for pending in sorted(pending_calls, key=_lock_order):
            if pending.needs_approval:
                batch.refuse(pending, call_approvals.request_approval(pending))
            elif not pending.decision.allowed:
                batch.refuse(pending, decision.refuse_as_decided(pending))
        batch.write(all_or_nothing=True)
    return batch.decisions


def _is_first_approval_request(row: dict[str, Any]) -> bool:
    return bool(row["details"].get("approval_id") == str(row["id"]))


def _lock_order(pending: DecidedCall) -> tuple[str, str]:
    """Return the key of the order in which every process locks rows that waiting calls share."""
    return str(pending.facts.row["agent_id"]), f"{pending.request.name} {pending.request.args_hash}"


def _needs_exclusive_rows(pending: DecidedCall) -> bool:
    return pending.uses_approval or needs_probe(pending.facts)


def _consume_budgets(batch: ReservationBatch, allowed: Sequence[DecidedCall]) -> None:
    """Consume budgets in order of arrival, with all budgets of the batch locked."""
    needs_budgets = any(budget_store.has_budgets(pending) for pending in allowed)
    if needs_budgets:
        budget_store.create_grant_budgets(allowed)
    budgets, now = budget_store.lock_budgets(allowed) if needs_budgets else ({}, None)
    for pending in allowed:
        call_budgets = budget_store.select_budgets(pending, budgets)
        moment = now or pending.facts.now
        if _lost_race(batch, pending):
            continue
        exceeded_limit = budget_state.consume_all(call_budgets, moment)
        if call_budgets:
            pending.log_row["details"]["budgets"] = [_describe_budget(budget, moment) for budget in call_budgets]
        if exceeded_limit is None:
            _add_lease(batch, pending, call_budgets, moment)
            continue
        _release_claims(pending)
        quota = budget_state.find_tightest_quota(call_budgets, moment)
        batch.refuse(
            pending,
            decision.refuse_call(
                pending,
                exceeded_limit.reason,
                exceeded_limit.message,
                retry_after=exceeded_limit.retry_after,
                quota=quota,
            ),
        )
    if now is not None:
        budget_store.save_usage(budgets.values(), now)


def _lost_race(batch: ReservationBatch, pending: DecidedCall) -> bool:
    """Claim the approval and the probes of a call. If another call was first, the call is decided again."""
    if pending.uses_approval and not call_approvals.use_approval(pending):
        batch.decisions[pending.request.call_id] = None
        return True
    if _claim_probes(pending):
        return False
    if pending.uses_approval:
        call_approvals.return_approval(pending)
    batch.decisions[pending.request.call_id] = None
    return True


def _claim_probes(pending: DecidedCall) -> bool:
    """Claim every probe that the call needs, for as long as the call may take. If one claim fails, release all."""
    probed = find_probed_breakers(pending.facts)
    seconds = float(pending.facts.row["timeout"]) + LEASE_GRACE.total_seconds()
    if all(breakers.claim_probe(breaker.id, pending.request.call_id, seconds=seconds) for breaker in probed):
        return True
    breakers.release_probe(pending.request.call_id)
    return False


def _release_claims(pending: DecidedCall) -> None:
    """Return the approval and the probes of a call that a budget refuses."""
    if pending.uses_approval:
        call_approvals.return_approval(pending)
    if needs_probe(pending.facts):
        breakers.release_probe(pending.request.call_id)


def _add_lease(batch: ReservationBatch, pending: DecidedCall, budgets: list[BudgetState], now: datetime) -> None:
    facts, request = pending.facts, pending.request
    timeout = min([float(facts.row["timeout"]), *(budget.timeout for budget in budgets if budget.timeout)])
    deadline = now + min(timedelta(seconds=timeout) + LEASE_GRACE, LEASE_DURATION)
    concurrency_budgets = [budget for budget in budgets if budget.concurrency_limit is not None]
    for budget in concurrency_budgets:
        slot = {"id": uuid7(), "budget_id": budget.id, "call_id": request.call_id, "deadline": deadline}
        batch.slots.append(slot)
    quota = budget_state.find_tightest_quota(budgets, now) if budgets else None
    lease = _build_lease(pending, timeout, has_slots=bool(concurrency_budgets), quota=quota)
    batch.leases.append((pending, lease, deadline))


def _build_lease(pending: DecidedCall, timeout: float, *, has_slots: bool, quota: RemainingQuota | None) -> CallLease:
    facts, row = pending.facts, pending.facts.row
    server_id, definition_id = facts.read_id("server_id"), facts.read_id("definition_id")
    assert server_id is not None  # the decision requires an enabled server
    assert definition_id is not None  # the decision requires an approved definition
    has_faults = bool(row["breaker_failures"] or row["own_breaker_failures"]) or row["connection"] != "Ready"
    return CallLease(
        call_id=pending.request.call_id,
        server_id=server_id,
        tool=row["wire_name"],
        revision=row["revision"],
        era=row["era"],
        timeout=timeout,
        definition_id=definition_id,
        decided_at=facts.now,
        row=pending.log_row,
        service_has_faults=has_faults or bool(row["faults"]) or bool(find_tripped_breakers(facts)),
        has_shortened_timeout=timeout < float(row["timeout"]),
        has_slots=has_slots,
        quota=quota,
    )


def _describe_budget(budget: BudgetState, now: datetime) -> dict[str, Any]:
    """Describe a budget for the log row's details, which the call's page shows."""
    quota = budget.find_remaining(now)
    return {
        "scope": budget.scope,
        "name": budget.target_name,
        "in_flight": budget.in_flight if budget.concurrency_limit is not None else None,
        "remaining": quota.remaining if quota else None,
    }


def _count_unauthenticated(pending_calls: Sequence[DecidedCall]) -> None:
    unauthenticated = [pending for pending in pending_calls if decision.is_unauthenticated(pending)]
    attempts = [
        (pending.facts.row["public_id"] or authentication_failures.UNKNOWN_PUBLIC_ID, pending.request.source, pending)
        for pending in unauthenticated
    ]
    for public_id, _, pending in sorted(attempts, key=lambda attempt: attempt[:2]):
        with bind_context(RequestContext(pending.request.request_id, pending.request.source)):
            authentication_failures.count_failure(public_id, pending.decision.reason, pending.facts.now)


def _facts_parameters(request: CallRequest) -> tuple[Any, ...]:
    token = request.token
    # No tool has an unprintable name. The database would reject it, which would be reported as unreachable.
    name = request.name if request.name.isprintable() else ""
    if isinstance(token, ParsedCredentialToken):
        return token.public_id, None, None, name, request.args_hash
    return None, token.credential_id, token.identity_id, name, request.args_hash


def write_leases(
    leases: Sequence[tuple[DecidedCall, CallLease, datetime]], slots: Sequence[dict[str, Any]]
) -> set[UUID]:
    """Write leases and slots. Return the ids of the leased calls; calls whose access has changed get no lease."""
    if not leases:
        return set()
    owner = row_macs.writer.id
    rows = [
        {
            "id": lease.call_id,
            "agent_id": lease.row["agent_id"],
            "server_id": lease.server_id,
            "tool_id": lease.row["tool_id"],
            "owner": owner,
            "deadline": deadline,
            "stop_reason": "",
            "cancel_key": pending.request.cancel_key,
            "row": invocations.as_json(lease.row),
            "epoch": pending.facts.row["epoch"],
        }
        for pending, lease, deadline in leases
    ]
    return (
        _write_leases_on_postgresql(rows, slots) if database.is_postgresql() else _write_leases_on_sqlite(rows, slots)
    )


LEASE_SQL = """
INSERT INTO mcp_call (id, agent_id, server_id, tool_id, owner, deadline, stop_reason, cancel_key, row)
SELECT r.id, r.agent_id, r.server_id, r.tool_id, r.owner, r.deadline, '', r.cancel_key, r.row
FROM jsonb_to_recordset(%s::jsonb) AS r(id uuid, agent_id uuid, server_id uuid, tool_id uuid, owner uuid,
    deadline timestamptz, cancel_key text, row jsonb, epoch bigint)
JOIN nhi_identity i ON i.id = r.agent_id AND i.access_epoch = r.epoch
RETURNING id
"""
LEASE_AND_SLOTS_SQL = (
    "WITH leased AS ("  # noqa: S608 - our own words
    + LEASE_SQL
    + """), slots AS (
    INSERT INTO mcp_call_slot (id, budget_id, call_id, deadline) SELECT s.id, s.budget_id, s.call_id, s.deadline
    FROM jsonb_populate_recordset(NULL::mcp_call_slot, %s::jsonb) s JOIN leased ON leased.id = s.call_id
) SELECT id FROM leased"""
)


def _write_leases_on_postgresql(rows: list[dict[str, Any]], slots: Sequence[dict[str, Any]]) -> set[UUID]:
    if slots:
        written = database.run_statement(LEASE_AND_SLOTS_SQL, [database.dump_rows(rows), database.dump_rows(slots)])
    else:
        written = database.run_statement(LEASE_SQL, [database.dump_rows(rows)])
    return {row[0] for row in written}


def _write_leases_on_sqlite(rows: list[dict[str, Any]], slots: Sequence[dict[str, Any]]) -> set[UUID]:
    condition, values = database.id_condition([row["agent_id"] for row in rows])
    epochs = database.run_statement(f"SELECT id, access_epoch FROM nhi_identity WHERE id {condition}", values)  # noqa: S608 - our own names
    current_epochs = {UUID(identity_id): epoch for identity_id, epoch in epochs}
    leased_ids = {row["id"] for row in rows if current_epochs.get(row["agent_id"]) == row["epoch"]}
    database.insert_rows(Call, [row for row in rows if row["id"] in leased_ids])
    database.insert_rows(CallSlot, [slot for slot in slots if slot["call_id"] in leased_ids])
    return leased_ids


def attach_schemas(needed_by_call: Mapping[UUID, SchemasNeeded]) -> dict[UUID, Any]:
    """Add the schemas to each `SchemasNeeded`."""
    if not needed_by_call:
        return {}
    grants = {schema_id for schemas_needed in needed_by_call.values() for schema_id in schemas_needed.grants}
    definitions = {schema_id for schemas_needed in needed_by_call.values() for schema_id in schemas_needed.definitions}
    schemas = _load_grant_schemas(grants) | _load_definition_schemas(definitions)
    return {
        call_id: replace(
            schemas_needed,
            schemas={
                schema_id: schemas[schema_id] for schema_id in (*schemas_needed.grants, *schemas_needed.definitions)
            },
        )
        for call_id, schemas_needed in needed_by_call.items()
    }


def _load_grant_schemas(ids: set[UUID]) -> dict[UUID, dict[str, Any]]:
    rows = ToolPermission.objects.filter(pk__in=ids).values_list("pk", "allowed_parameters")
    return {pk: schema or {} for pk, schema in rows} if ids else {}


def _load_definition_schemas(ids: set[UUID]) -> dict[UUID, dict[str, Any]]:
    rows = ToolDefinition.objects.filter(pk__in=ids).values_list("pk", "body")
    return {pk: body.get("inputSchema") or {} for pk, body in rows} if ids else {}
