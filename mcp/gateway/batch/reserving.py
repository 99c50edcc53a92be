"""Decides a batch and writes leases, budget slots and refusals before any decision is delivered."""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import transaction

from common.context import RequestContext, bind_context
from common.errors import RecordUnavailable
from common.ids import uuid7
from mcp.gateway.batch import budget_store, call_approvals, chaining, database, decision, leasing, reading, schemas
from mcp.gateway.batch.callers import caller_keys
from mcp.gateway.batch.decision import PendingCall
from mcp.gateway.types import CallDecision, CallLease, CallRefusal, CallRequest
from mcp.limits import breakers, budget_state
from mcp.limits.budget_state import BudgetState, RemainingQuota
from nhi.audit import authentication_failures, refusal_limits
from nhi.credentials import last_used
from nhi.credentials.tokens import ParsedCredentialToken
from nhi.models import InvocationLog

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

    def __init__(self, drafts: Sequence[PendingCall]) -> None:
        self.drafts = drafts
        self.answers: DecisionsByCall = {}
        self.rows: list[dict[str, Any]] = []
        self.leases: list[tuple[PendingCall, CallLease, datetime]] = []
        self.slots: list[dict[str, Any]] = []

    def refuse(self, draft: PendingCall, refused: tuple[CallRefusal, dict[str, Any] | None]) -> None:
        refusal, row = refused
        self.answers[draft.request.call_id] = refusal
        if row is not None:
            self.rows.append(row)

    def write(self, *, whole: bool) -> None:
        """Write leases, slots and refusals. In a shared transaction, one missing lease rolls back the batch."""
        written = leasing.write_leases(self.leases, self.slots)
        missing = {draft.request.call_id for draft, _, _ in self.leases} - written
        if missing and whole:
            raise AccessChanged(missing)
        for draft, ticket, _ in self.leases:
            self.answers[draft.request.call_id] = ticket if draft.request.call_id in written else None
        counted = self._count_refusals()
        database.insert_rows(InvocationLog, [row for row in self.rows if row["id"] not in counted])

    def _count_refusals(self) -> set[UUID]:
        """Return the refused calls beyond one identity's limit of rows per minute. They are counted and get no row."""
        # The first call that waits for an approval shares its id with it and always gets a row. Few can wait at once.
        counted = refusal_limits.limit_calls([row for row in self.rows if not _is_first_approval_request(row)])
        for call_id in counted:
            refusal = self.answers[call_id]
            assert isinstance(refusal, CallRefusal)  # only refusals have rows here
            self.answers[call_id] = replace(refusal, recorded=False)
        return counted


def reserve_calls(wishes: Sequence[CallRequest]) -> DecisionsByCall:
    """Return a decision for each request; None for a call that must be decided again."""
    asked = [_facts_parameters(wish) for wish in wishes]
    read = [(reading.read_facts(row), wish) for row, wish in zip(database.load_facts(asked), wishes, strict=True)]
    behind = chaining.load_chains(read)
    drafts = [decision.decide_call(found, wish, one) for (found, wish), one in zip(read, behind, strict=True)]
    if not all(draft.facts.row["recordable"] for draft in drafts):
        raise RecordUnavailable
    _record_credential_uses(drafts)
    questions = {
        draft.request.call_id: question for draft in drafts if (question := decision.find_unchecked_schemas(draft))
    }
    ready = [draft for draft in drafts if draft.request.call_id not in questions]
    return {**schemas.attach_schemas(questions), **(_write_unless_stale(ready) if ready else {})}


def _record_credential_uses(drafts: Sequence[PendingCall]) -> None:
    for draft in drafts:
        credential_id = draft.facts.read_id("credential_id")
        if credential_id is not None and not decision.is_unauthenticated(draft):
            use = last_used.CredentialUse(draft.facts.now, draft.request.source, draft.facts.read_id("agent_id"))
            last_used.recorder.record(credential_id, use)
            caller_keys.remember(draft.request.token, draft.log_row["agent_id"])


def _write_unless_stale(drafts: Sequence[PendingCall]) -> DecisionsByCall:
    try:
        return _write_batch(drafts)
    except AccessChanged as stale:
        fresh = [draft for draft in drafts if draft.request.call_id not in stale.calls]
        return dict.fromkeys(stale.calls) | _write_unless_stale(fresh)


def _write_batch(drafts: Sequence[PendingCall]) -> DecisionsByCall:
    batch = ReservationBatch(drafts)
    if all(
        draft.decision.allowed and not budget_store.has_budgets(draft) and not _needs_exclusive_rows(draft)
        for draft in drafts
    ):
        # The usual case. A single writing statement needs no transaction.
        for draft in drafts:
            _add_lease(batch, draft, [], draft.facts.now)
        with transaction.atomic() if not database.is_postgresql() else nullcontext():
            batch.write(whole=False)
        return batch.answers
    with transaction.atomic():
        _count_unauthenticated(drafts)
        _consume_budgets(batch, [draft for draft in drafts if draft.decision.allowed])
        for draft in sorted(drafts, key=_lock_order):
            if draft.needs_approval:
                batch.refuse(draft, call_approvals.request_approval(draft))
            elif not draft.decision.allowed:
                batch.refuse(draft, decision.refuse_as_decided(draft))
        batch.write(whole=True)
    return batch.answers


def _is_first_approval_request(row: dict[str, Any]) -> bool:
    return bool(row["details"].get("approval_id") == str(row["id"]))


def _lock_order(draft: PendingCall) -> tuple[str, str]:
    """Return the key of the order in which every process locks rows that waiting calls share."""
    return str(draft.facts.row["agent_id"]), f"{draft.request.name} {draft.request.args_hash}"


def _needs_exclusive_rows(draft: PendingCall) -> bool:
    return draft.uses_approval or reading.needs_probe(draft.facts)


def _consume_budgets(batch: ReservationBatch, allowed: Sequence[PendingCall]) -> None:
    """Consume budgets in order of arrival, with all budgets of the batch locked."""
    limited = any(budget_store.has_budgets(draft) for draft in allowed)
    if limited:
        budget_store.create_grant_budgets(allowed)
    held, now = budget_store.lock_budgets(allowed) if limited else ({}, None)
    for draft in allowed:
        own = budget_store.select_budgets(draft, held)
        moment = now or draft.facts.now
        if _lost_race(batch, draft):
            continue
        lack = budget_state.consume_all(own, moment)
        if own:
            draft.log_row["details"]["budgets"] = [_describe_budget(purse, moment) for purse in own]
        if lack is None:
            _add_lease(batch, draft, own, moment)
            continue
        _release_claims(draft)
        left = budget_state.find_tightest_quota(own, moment)
        batch.refuse(
            draft, decision.refuse_call(draft, lack.reason, lack.message, retry_after=lack.retry_after, quota=left)
        )
    if now is not None:
        budget_store.save_usage(held.values(), now)


def _lost_race(batch: ReservationBatch, draft: PendingCall) -> bool:
    """Claim the approval and the probes of a call. If another call was first, the call is decided again."""
    if draft.uses_approval and not call_approvals.use_approval(draft):
        batch.answers[draft.request.call_id] = None
        return True
    if _claim_probes(draft):
        return False
    if draft.uses_approval:
        call_approvals.return_approval(draft)
    batch.answers[draft.request.call_id] = None
    return True


def _claim_probes(draft: PendingCall) -> bool:
    """Claim every probe that the call needs, for as long as the call may take. If one claim fails, release all."""
    probed = reading.find_probed_breakers(draft.facts)
    seconds = float(draft.facts.row["timeout"]) + LEASE_GRACE.total_seconds()
    if all(breakers.claim_probe(breaker.id, draft.request.call_id, seconds=seconds) for breaker in probed):
        return True
    breakers.release_probe(draft.request.call_id)
    return False


def _release_claims(draft: PendingCall) -> None:
    """Return the approval and the probes of a call that a budget refuses."""
    if draft.uses_approval:
        call_approvals.return_approval(draft)
    if reading.needs_probe(draft.facts):
        breakers.release_probe(draft.request.call_id)


def _add_lease(batch: ReservationBatch, draft: PendingCall, own: list[BudgetState], now: datetime) -> None:
    found, wish = draft.facts, draft.request
    timeout = min([float(found.row["timeout"]), *(purse.timeout for purse in own if purse.timeout)])
    deadline = now + min(timedelta(seconds=timeout) + LEASE_GRACE, LEASE_DURATION)
    limits = [purse for purse in own if purse.concurrency_limit is not None]
    for purse in limits:
        slot = {"id": uuid7(), "budget_id": purse.id, "call_id": wish.call_id, "deadline": deadline}
        batch.slots.append(slot)
    ticket = _build_lease(draft, timeout, slots=bool(limits), left=budget_state.find_tightest_quota(own, now))
    batch.leases.append((draft, ticket, deadline))


def _build_lease(draft: PendingCall, timeout: float, *, slots: bool, left: RemainingQuota | None) -> CallLease:
    found, row = draft.facts, draft.facts.row
    server_id, definition_id = found.read_id("server_id"), found.read_id("definition_id")
    assert server_id is not None  # the decision requires an enabled server
    assert definition_id is not None  # the decision requires an approved definition
    unwell = bool(row["breaker_failures"] or row["own_breaker_failures"]) or row["connection"] != "Ready"
    return CallLease(
        call_id=draft.request.call_id,
        server_id=server_id,
        tool=row["wire_name"],
        revision=row["revision"],
        era=row["era"],
        timeout=timeout,
        definition_id=definition_id,
        decided_at=found.now,
        row=draft.log_row,
        service_has_faults=unwell or bool(row["faults"]) or bool(reading.find_tripped_breakers(found)),
        has_shortened_timeout=timeout < float(row["timeout"]),
        has_slots=slots,
        quota=left,
    )


def _describe_budget(purse: BudgetState, now: datetime) -> dict[str, Any]:
    """Describe a budget for the log row's details, which the call's page shows."""
    left = purse.find_remaining(now)
    return {
        "scope": purse.scope,
        "name": purse.target_name,
        "in_flight": purse.in_flight if purse.concurrency_limit is not None else None,
        "remaining": left.remaining if left else None,
    }


def _count_unauthenticated(drafts: Sequence[PendingCall]) -> None:
    strangers = [draft for draft in drafts if decision.is_unauthenticated(draft)]
    named = [
        (draft.facts.row["public_id"] or authentication_failures.UNKNOWN_PUBLIC_ID, draft.request.source, draft)
        for draft in strangers
    ]
    for public_id, _, draft in sorted(named, key=lambda one: one[:2]):
        with bind_context(RequestContext(draft.request.request_id, draft.request.source)):
            authentication_failures.count_failure(public_id, draft.decision.reason, draft.facts.now)


def _facts_parameters(wish: CallRequest) -> tuple[Any, ...]:
    shown = wish.token
    # No tool has an unprintable name. The database would reject it, which would be reported as unreachable.
    name = wish.name if wish.name.isprintable() else ""
    if isinstance(shown, ParsedCredentialToken):
        return shown.public_id, None, None, name, wish.args_hash
    return None, shown.credential_id, shown.identity_id, name, wish.args_hash
