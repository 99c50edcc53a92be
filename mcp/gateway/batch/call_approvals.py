"""Creates, uses and returns approvals inside the deciding transaction."""

import json
from datetime import timedelta
from typing import Any

from common import canonical_json, crypto
from common.context import RequestContext, bind_context
from mcp.approvals import origins
from mcp.approvals.origins import CallRoots
from mcp.choices import ApprovalState
from mcp.gateway.batch import decision, reading
from mcp.gateway.batch.decision import PendingCall
from mcp.gateway.types import CallRefusal
from mcp.models import CallApproval
from nhi.actors import Actor
from nhi.audit import events, sanitization
from nhi.choices import ActorKind
from nhi.credentials import run_tokens
from nhi.hooks import WaitingCall

#: How long a call may wait for a person, and how long its approval is then valid.
APPROVAL_LIFETIME = timedelta(minutes=15)
#: Limit for one agent, so that it floods neither the table nor the people who decide.
MAX_WAITING = 20
TOO_MANY_WAITING_MESSAGE = f"{MAX_WAITING} calls of this agent wait for a person already. Wait until some are decided."
INEXACT_NUMBER_MESSAGE = (
    "A whole number past 2^53 cannot be told from its neighbours when a person approves it; send it as text."
)
WAITING_MESSAGE = "This call waits for a person's approval. Send it again once it is approved."


def sealing_place(approval: CallApproval) -> str:
    return f"mcp_call_approval/{approval.pk}/arguments"


def request_approval(draft: PendingCall) -> tuple[CallRefusal, dict[str, Any] | None]:
    """Find the open approval of this call with the same arguments or create one. The attempt is logged either way."""
    if not reading.is_exact(draft.request.arguments):
        return decision.refuse_call(draft, "invalid_parameters", INEXACT_NUMBER_MESSAGE)
    approval = _find_open_approval(draft)
    if approval is None and _has_too_many_waiting(draft):
        return decision.refuse_call(draft, "quota_exceeded", TOO_MANY_WAITING_MESSAGE, retry_after=60)
    approval = approval or _create_approval(draft)
    if approval.state == ApprovalState.PENDING:
        # A later decision covers this attempt too, so its origins count.
        origins.record(approval, _call_roots(draft))
    draft.log_row["details"]["approval_id"] = str(approval.pk)
    waits = _build_waiting(draft, approval)
    return decision.refuse_call(
        draft,
        "approval_required",
        waiting_message(approval),
        expires_at=approval.expires_at,
        approval_id=approval.pk,
        waiting=waits,
        needs_superuser=approval.needs_superuser,
    )


def waiting_message(approval: CallApproval) -> str:
    """Return the message for the caller of a waiting call."""
    return f"{WAITING_MESSAGE} {origins.needs_superuser_message()}" if approval.needs_superuser else WAITING_MESSAGE


def _call_roots(draft: PendingCall) -> CallRoots:
    chain = draft.call_chain.chain
    return CallRoots.of_call(
        agent_id=draft.log_row["agent_id"],
        above=[link.id for link in chain.callers] if chain is not None else (),
        run_id=run_tokens.run_id_of(draft.request.token),
        task_id=chain.task_id if chain is not None else None,
    )


def _build_waiting(draft: PendingCall, approval: CallApproval) -> WaitingCall | None:
    chain = draft.call_chain.chain
    if chain is None or chain.task_id is None:
        return None
    return WaitingCall(approval.pk, chain.task_id, draft.request.name, approval.expires_at)


def use_approval(draft: PendingCall) -> bool:
    """Use up the approval for this call. An approval by a person behind this call is expired instead, so that the call
    is decided again and waits for somebody else."""
    now = draft.facts.now
    open_permit = CallApproval.objects.filter(
        pk__in=[draft.facts.read_id("approval_id")], state=ApprovalState.APPROVED, expires_at__gt=now
    )
    permit = open_permit.first()
    if permit is None:
        return False
    if not origins.may_use_approval(permit, _call_roots(draft)):
        open_permit.update(state=ApprovalState.EXPIRED)
        return False
    if not open_permit.update(state=ApprovalState.USED, used_by=draft.request.call_id):
        return False
    draft.log_row["details"]["approval_id"] = str(permit.pk)
    if permit.break_glass:
        draft.log_row["details"]["break_glass"] = True
    return True


def return_approval(draft: PendingCall) -> None:
    CallApproval.objects.filter(pk__in=[draft.facts.read_id("approval_id")], used_by=draft.request.call_id).update(
        state=ApprovalState.APPROVED, used_by=None
    )


def _find_open_approval(draft: PendingCall) -> CallApproval | None:
    """Find the open approval of this call. One that is past its time or has other terms is expired."""
    same = {
        "agent_id": draft.log_row["agent_id"],
        "tool_id": draft.log_row["tool_id"],
        "args_hash": draft.request.args_hash,
    }
    known = CallApproval.objects.select_for_update().filter(
        **same, state__in=[ApprovalState.PENDING, ApprovalState.APPROVED]
    )
    approval = known.first()
    if approval is None:
        return None
    if approval.expires_at <= draft.facts.now or approval.terms != reading.approval_terms(draft.facts):
        CallApproval.objects.filter(pk=approval.pk).update(state=ApprovalState.EXPIRED, sealed_arguments="")
        return None
    CallApproval.objects.filter(pk=approval.pk).update(attempts=approval.attempts + 1)
    return approval


def _has_too_many_waiting(draft: PendingCall) -> bool:
    waiting = CallApproval.objects.filter(agent_id=draft.log_row["agent_id"], state=ApprovalState.PENDING)
    return waiting.filter(expires_at__gt=draft.facts.now).count() >= MAX_WAITING


def _create_approval(draft: PendingCall) -> CallApproval:
    wish, row, match = draft.request, draft.log_row, draft.decision.match
    approval = CallApproval(
        id=wish.call_id,
        agent_id=row["agent_id"],
        agent_name=row["agent_name"],
        tool_id=row["tool_id"],
        tool_name=wish.name,
        args_hash=wish.args_hash,
        context=sanitization.make_storable(_build_context(draft)),
        grant_id=match.id if match is not None and match.kind == "grant" else None,
        terms=reading.approval_terms(draft.facts),
        owner_id=draft.facts.read_id("owner_id"),
        asked_at=draft.facts.now,
        expires_at=draft.facts.now + APPROVAL_LIFETIME,
    )
    text = canonical_json.encode(dict(wish.arguments)).decode()
    approval.sealed_arguments = crypto.seal(text, place=sealing_place(approval))
    approval.save(force_insert=True)
    asker = Actor(ActorKind.IDENTITY, row["agent_id"], row["agent_name"])
    with bind_context(RequestContext(wish.request_id, wish.source)):
        events.write("approval.asked", actor=asker, subject=approval, details={"args_hash": wish.args_hash})
    return approval


def _build_context(draft: PendingCall) -> dict[str, str]:
    around, chain = draft.request.context, draft.call_chain.chain
    said = {
        "conversation_id": around.thread_id,
        "task_id": draft.log_row["task_id"],
        "asked_by": str(chain) if chain is not None else "",
        "user_instruction": around.user_instruction,
    }
    return {name: sanitization.single_line(value, 2000) for name, value in said.items() if value}


def open_arguments(approval: CallApproval) -> dict[str, Any]:
    """Return the original arguments for the person who decides. They are stored only while the approval waits."""
    read: dict[str, Any] = json.loads(crypto.unseal(approval.sealed_arguments, place=sealing_place(approval)))
    return read
