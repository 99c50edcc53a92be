"""Deciding a batch of wishes, and writing leases and refusals before anybody is told."""

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
from mcp.gateway.batch.callers import callers
from mcp.gateway.batch.decision import Draft
from mcp.gateway.types import Answer, Refusal, Ticket, Wish
from mcp.limits import breakers, budget_state
from mcp.limits.budget_state import Left, Purse
from nhi.audit import authentication_failures, refusal_limits
from nhi.credentials import last_used
from nhi.credentials.tokens import ParsedCredentialToken
from nhi.models import InvocationLog

#: A lease is renewed by the process that makes its call; past this it counts as lost.
LEASE = timedelta(seconds=30)
GRACE = timedelta(seconds=10)

Written = dict[UUID, Answer | None]


class Stale(Exception):
    """The access of these calls' callers changed between reading and writing: nothing of the batch is kept."""

    def __init__(self, calls: set[UUID]) -> None:
        super().__init__()
        self.calls = calls


class Batch:
    """The drafts of one batch on their way to leases and rows."""

    def __init__(self, drafts: Sequence[Draft]) -> None:
        self.drafts = drafts
        self.answers: Written = {}
        self.rows: list[dict[str, Any]] = []
        self.leases: list[tuple[Draft, Ticket, datetime]] = []
        self.slots: list[dict[str, Any]] = []

    def refuse(self, draft: Draft, refused: tuple[Refusal, dict[str, Any] | None]) -> None:
        refusal, row = refused
        self.answers[draft.wish.call_id] = refusal
        if row is not None:
            self.rows.append(row)

    def write(self, *, whole: bool) -> None:
        """Leases, slots and refusals. Of what is charged together, a missing lease takes the rest back with it."""
        written = leasing.take(self.leases, self.slots)
        missing = {draft.wish.call_id for draft, _, _ in self.leases} - written
        if missing and whole:
            raise Stale(missing)
        for draft, ticket, _ in self.leases:
            self.answers[draft.wish.call_id] = ticket if draft.wish.call_id in written else None
        counted = self._count_refusals()
        database.insert(InvocationLog, [row for row in self.rows if row["id"] not in counted])

    def _count_refusals(self) -> set[UUID]:
        """The refused calls past what one identity may have as rows in a minute; their answers name no row."""
        # The first call that waits for an approval has the approval's id: it keeps its row, and few can wait at once.
        counted = refusal_limits.limit_calls([row for row in self.rows if not _is_first_asking(row)])
        for call_id in counted:
            refusal = self.answers[call_id]
            assert isinstance(refusal, Refusal)  # only those have rows here
            self.answers[call_id] = replace(refusal, recorded=False)
        return counted


def reserve(wishes: Sequence[Wish]) -> Written:
    """An answer for each wish; None for one that has to be decided again."""
    asked = [_asked(wish) for wish in wishes]
    read = [(reading.read(row), wish) for row, wish in zip(database.facts(asked), wishes, strict=True)]
    behind = chaining.look(read)
    drafts = [decision.decide(found, wish, one) for (found, wish), one in zip(read, behind, strict=True)]
    if not all(draft.found.row["recordable"] for draft in drafts):
        raise RecordUnavailable
    _note_uses(drafts)
    questions = {draft.wish.call_id: question for draft in drafts if (question := decision.unchecked(draft))}
    ready = [draft for draft in drafts if draft.wish.call_id not in questions]
    return {**schemas.answer(questions), **(_settled(ready) if ready else {})}


def _note_uses(drafts: Sequence[Draft]) -> None:
    for draft in drafts:
        credential_id = draft.found.id("credential_id")
        if credential_id is not None and not decision.is_strangers(draft):
            use = last_used.CredentialUse(draft.found.now, draft.wish.source, draft.found.id("agent_id"))
            last_used.recorder.record(credential_id, use)
            callers.learn(draft.wish.shown, draft.begun["agent_id"])


def _settled(drafts: Sequence[Draft]) -> Written:
    try:
        return _write(drafts)
    except Stale as stale:
        fresh = [draft for draft in drafts if draft.wish.call_id not in stale.calls]
        return dict.fromkeys(stale.calls) | _settled(fresh)


def _write(drafts: Sequence[Draft]) -> Written:
    batch = Batch(drafts)
    if all(draft.decision.allowed and not budget_store.concerns(draft) and not _is_special(draft) for draft in drafts):
        # The usual case: with one writing statement there is nothing to hold together.
        for draft in drafts:
            _let_through(batch, draft, [], draft.found.now)
        with transaction.atomic() if not database.is_postgresql() else nullcontext():
            batch.write(whole=False)
        return batch.answers
    with transaction.atomic():
        _count_strangers(drafts)
        _allot(batch, [draft for draft in drafts if draft.decision.allowed])
        for draft in sorted(drafts, key=_one_order):
            if draft.needs_approval:
                batch.refuse(draft, call_approvals.ask(draft))
            elif not draft.decision.allowed:
                batch.refuse(draft, decision.refuse_as_decided(draft))
        batch.write(whole=True)
    return batch.answers


def _is_first_asking(row: dict[str, Any]) -> bool:
    return bool(row["details"].get("approval_id") == str(row["id"]))


def _one_order(draft: Draft) -> tuple[str, str]:
    """Rows that waiting calls share are locked in the same order by every process."""
    return str(draft.found.row["agent_id"]), f"{draft.wish.name} {draft.wish.args_hash}"


def _is_special(draft: Draft) -> bool:
    return draft.uses_permit or reading.wants_probe(draft.found)


def _allot(batch: Batch, allowed: Sequence[Draft]) -> None:
    """In order of arrival, under the locks of all budgets of the batch."""
    limited = any(budget_store.concerns(draft) for draft in allowed)
    if limited:
        budget_store.make_for_grants(allowed)
    held, now = budget_store.lock(allowed) if limited else ({}, None)
    for draft in allowed:
        own = budget_store.of(draft, held)
        moment = now or draft.found.now
        if _misses_its_turn(batch, draft):
            continue
        lack = budget_state.allot(own, moment)
        if own:
            draft.begun["details"]["budgets"] = [_stood(purse, moment) for purse in own]
        if lack is None:
            _let_through(batch, draft, own, moment)
            continue
        _give_back(draft)
        left = budget_state.tightest(own, moment)
        batch.refuse(draft, decision.refuse(draft, lack.reason, lack.message, retry_after=lack.retry_after, left=left))
    if now is not None:
        budget_store.settle(held.values(), now)


def _misses_its_turn(batch: Batch, draft: Draft) -> bool:
    """A permit or a probe goes to one call; who comes second is decided again on what is true then."""
    if draft.uses_permit and not call_approvals.use(draft):
        batch.answers[draft.wish.call_id] = None
        return True
    if _claim_probes(draft):
        return False
    if draft.uses_permit:
        call_approvals.give_back(draft)
    batch.answers[draft.wish.call_id] = None
    return True


def _claim_probes(draft: Draft) -> bool:
    """All that the call needs, for as long as it may take: until then nobody else tries."""
    probed = reading.probed(draft.found)
    seconds = float(draft.found.row["timeout"]) + GRACE.total_seconds()
    if all(breakers.claim(breaker.id, draft.wish.call_id, seconds=seconds) for breaker in probed):
        return True
    breakers.release(draft.wish.call_id)
    return False


def _give_back(draft: Draft) -> None:
    """A call that a budget refuses costs nothing: neither its permit nor the breaker's one probe."""
    if draft.uses_permit:
        call_approvals.give_back(draft)
    if reading.wants_probe(draft.found):
        breakers.release(draft.wish.call_id)


def _let_through(batch: Batch, draft: Draft, own: list[Purse], now: datetime) -> None:
    found, wish = draft.found, draft.wish
    timeout = min([float(found.row["timeout"]), *(purse.timeout for purse in own if purse.timeout)])
    deadline = now + min(timedelta(seconds=timeout) + GRACE, LEASE)
    limits = [purse for purse in own if purse.concurrency_limit is not None]
    for purse in limits:
        slot = {"id": uuid7(), "budget_id": purse.id, "call_id": wish.call_id, "deadline": deadline}
        batch.slots.append(slot)
    ticket = _ticket(draft, timeout, slots=bool(limits), left=budget_state.tightest(own, now))
    batch.leases.append((draft, ticket, deadline))


def _ticket(draft: Draft, timeout: float, *, slots: bool, left: Left | None) -> Ticket:
    found, row = draft.found, draft.found.row
    server_id, definition_id = found.id("server_id"), found.id("definition_id")
    assert server_id is not None  # the decision saw an enabled server
    assert definition_id is not None  # and an approved definition
    unwell = bool(row["breaker_failures"] or row["own_breaker_failures"]) or row["connection"] != "Ready"
    return Ticket(
        call_id=draft.wish.call_id,
        server_id=server_id,
        tool=row["wire_name"],
        revision=row["revision"],
        era=row["era"],
        timeout=timeout,
        definition_id=definition_id,
        decided_at=found.now,
        row=draft.begun,
        unwell=unwell or bool(row["faults"]) or bool(reading.tripped(found)),
        hurried=timeout < float(row["timeout"]),
        slots=slots,
        left=left,
    )


def _stood(purse: Purse, now: datetime) -> dict[str, Any]:
    """The budget as the call's page shows it."""
    left = purse.left(now)
    return {
        "scope": purse.scope,
        "name": purse.target_name,
        "in_flight": purse.in_flight if purse.concurrency_limit is not None else None,
        "remaining": left.remaining if left else None,
    }


def _count_strangers(drafts: Sequence[Draft]) -> None:
    strangers = [draft for draft in drafts if decision.is_strangers(draft)]
    named = [
        (draft.found.row["public_id"] or authentication_failures.UNKNOWN_PUBLIC_ID, draft.wish.source, draft)
        for draft in strangers
    ]
    for public_id, _, draft in sorted(named, key=lambda one: one[:2]):
        with bind_context(RequestContext(draft.wish.request_id, draft.wish.source)):
            authentication_failures.count_failure(public_id, draft.decision.reason, draft.found.now)


def _asked(wish: Wish) -> tuple[Any, ...]:
    shown = wish.shown
    # No tool has such a name, and no database takes it: it would be said to be away.
    name = wish.name if wish.name.isprintable() else ""
    if isinstance(shown, ParsedCredentialToken):
        return shown.public_id, None, None, name, wish.args_hash
    return None, shown.credential_id, shown.identity_id, name, wish.args_hash
