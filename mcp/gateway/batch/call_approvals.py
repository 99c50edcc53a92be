"""Calls that wait for a person, as the deciding transaction sees them."""

import json
from datetime import timedelta
from typing import Any

from common import canonical_json, crypto
from common.context import RequestContext, bind_context
from mcp.approvals import origins
from mcp.approvals.origins import CallRoots
from mcp.choices import ApprovalState
from mcp.gateway.batch import decision, reading
from mcp.gateway.batch.decision import Draft
from mcp.gateway.types import Refusal
from mcp.models import CallApproval
from nhi.actors import Actor
from nhi.audit import events, sanitization
from nhi.choices import ActorKind
from nhi.credentials import run_tokens
from nhi.hooks import WaitingCall

#: How long a call may wait for a person, and how long the permit lasts.
WAIT = timedelta(minutes=15)
#: Of one agent, so that it fills neither the table nor a person's day.
MOST_WAITING = 20
MANY = f"{MOST_WAITING} calls of this agent wait for a person already. Wait until some are decided."
INEXACT = "A whole number past 2^53 cannot be told from its neighbours when a person approves it; send it as text."
MESSAGE = "This call waits for a person's approval. Send it again once it is approved."


def place(approval: CallApproval) -> str:
    return f"mcp_call_approval/{approval.pk}/arguments"


def ask(draft: Draft) -> tuple[Refusal, dict[str, Any] | None]:
    """The waiting approval of these very arguments, or a new one; the attempt is logged either way."""
    if not reading.exact(draft.wish.arguments):
        return decision.refuse(draft, "invalid_parameters", INEXACT)
    approval = _waiting(draft)
    if approval is None and _many(draft):
        return decision.refuse(draft, "quota_exceeded", MANY, retry_after=60)
    approval = approval or _new(draft)
    if approval.state == ApprovalState.PENDING:
        # Whoever decides from now on decides for this attempt too.
        origins.record(approval, _roots(draft))
    draft.begun["details"]["approval_id"] = str(approval.pk)
    waits = _waits(draft, approval)
    return decision.refuse(
        draft, "approval_required", message(approval), expires_at=approval.expires_at, approval_id=approval.pk,
        waits=waits, needs_superuser=approval.needs_superuser,
    )  # fmt: skip


def message(approval: CallApproval) -> str:
    """What the caller of a waiting call is told."""
    return f"{MESSAGE} {origins.nobody_decides()}" if approval.needs_superuser else MESSAGE


def _roots(draft: Draft) -> CallRoots:
    chain = draft.behind.chain
    return CallRoots.of_call(
        agent_id=draft.begun["agent_id"],
        above=[link.id for link in chain.callers] if chain is not None else (),
        run_id=run_tokens.run_id_of(draft.wish.shown),
        task_id=chain.task_id if chain is not None else None,
    )


def _waits(draft: Draft, approval: CallApproval) -> WaitingCall | None:
    chain = draft.behind.chain
    if chain is None or chain.task_id is None:
        return None
    return WaitingCall(approval.pk, chain.task_id, draft.wish.name, approval.expires_at)


def use(draft: Draft) -> bool:
    """Take the permit for this call, once. One that a person behind this call gave ends instead, so that the call is
    decided anew and waits for somebody else."""
    now = draft.found.now
    open_permit = CallApproval.objects.filter(
        pk__in=[draft.found.id("approval_id")], state=ApprovalState.APPROVED, expires_at__gt=now
    )
    permit = open_permit.first()
    if permit is None:
        return False
    if not origins.may_use(permit, _roots(draft)):
        open_permit.update(state=ApprovalState.EXPIRED)
        return False
    if not open_permit.update(state=ApprovalState.USED, used_by=draft.wish.call_id):
        return False
    draft.begun["details"]["approval_id"] = str(permit.pk)
    if permit.break_glass:
        draft.begun["details"]["break_glass"] = True
    return True


def give_back(draft: Draft) -> None:
    CallApproval.objects.filter(pk__in=[draft.found.id("approval_id")], used_by=draft.wish.call_id).update(
        state=ApprovalState.APPROVED, used_by=None
    )


def _waiting(draft: Draft) -> CallApproval | None:
    """What is past its time makes room for a new one."""
    same = {"agent_id": draft.begun["agent_id"], "tool_id": draft.begun["tool_id"], "args_hash": draft.wish.args_hash}
    known = CallApproval.objects.select_for_update().filter(
        **same, state__in=[ApprovalState.PENDING, ApprovalState.APPROVED]
    )
    approval = known.first()
    if approval is None:
        return None
    if approval.expires_at <= draft.found.now or approval.terms != reading.terms(draft.found):
        CallApproval.objects.filter(pk=approval.pk).update(state=ApprovalState.EXPIRED, sealed_arguments="")
        return None
    CallApproval.objects.filter(pk=approval.pk).update(attempts=approval.attempts + 1)
    return approval


def _many(draft: Draft) -> bool:
    waiting = CallApproval.objects.filter(agent_id=draft.begun["agent_id"], state=ApprovalState.PENDING)
    return waiting.filter(expires_at__gt=draft.found.now).count() >= MOST_WAITING


def _new(draft: Draft) -> CallApproval:
    wish, row, match = draft.wish, draft.begun, draft.decision.match
    approval = CallApproval(
        id=wish.call_id,
        agent_id=row["agent_id"],
        agent_name=row["agent_name"],
        tool_id=row["tool_id"],
        tool_name=wish.name,
        args_hash=wish.args_hash,
        context=sanitization.make_storable(_context(draft)),
        grant_id=match.id if match is not None and match.kind == "grant" else None,
        terms=reading.terms(draft.found),
        owner_id=draft.found.id("owner_id"),
        asked_at=draft.found.now,
        expires_at=draft.found.now + WAIT,
    )
    text = canonical_json.encode(dict(wish.arguments)).decode()
    approval.sealed_arguments = crypto.seal(text, place=place(approval))
    approval.save(force_insert=True)
    asker = Actor(ActorKind.IDENTITY, row["agent_id"], row["agent_name"])
    with bind_context(RequestContext(wish.request_id, wish.source)):
        events.write("approval.asked", actor=asker, subject=approval, details={"args_hash": wish.args_hash})
    return approval


def _context(draft: Draft) -> dict[str, str]:
    around, chain = draft.wish.circumstances, draft.behind.chain
    said = {
        "conversation_id": around.thread_id,
        "task_id": draft.begun["task_id"],
        "asked_by": str(chain) if chain is not None else "",
        "user_instruction": around.user_instruction,
    }
    return {name: sanitization.single_line(value, 2000) for name, value in said.items() if value}


def opened(approval: CallApproval) -> dict[str, Any]:
    """The arguments as they were sent, for who decides; only while it waits."""
    read: dict[str, Any] = json.loads(crypto.unseal(approval.sealed_arguments, place=place(approval)))
    return read
