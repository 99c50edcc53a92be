"""Creates, uses and returns approvals inside the deciding transaction."""

import json
from datetime import timedelta
from typing import Any

from common import canonical_json, crypto
from common.context import RequestContext, bind_context
from mcp.approvals import origins
from mcp.approvals.origins import CallRoots
from mcp.choices import ApprovalState
from mcp.gateway.batch import decision, facts
from mcp.gateway.batch.decision import DecidedCall
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


def request_approval(pending: DecidedCall) -> tuple[CallRefusal, dict[str, Any] | None]:
    """Find the open approval of this call with the same arguments or create one. The attempt is logged either way."""
    if not facts.is_exact(pending.request.arguments):
        return decision.refuse_call(pending, "invalid_parameters", INEXACT_NUMBER_MESSAGE)
    approval = _find_open_approval(pending)
    if approval is None and _has_too_many_waiting(pending):
        return decision.refuse_call(pending, "quota_exceeded", TOO_MANY_WAITING_MESSAGE, retry_after=60)
    approval = approval or _create_approval(pending)
    if approval.state == ApprovalState.PENDING:
        # A later decision covers this attempt too, so its origins count.
        origins.record(approval, _call_roots(pending))
    pending.log_row["details"]["approval_id"] = str(approval.pk)
    waiting = _build_waiting(pending, approval)
    return decision.refuse_call(
        pending,
        "approval_required",
        waiting_message(approval),
        expires_at=approval.expires_at,
        approval_id=approval.pk,
        waiting=waiting,
        needs_superuser=approval.needs_superuser,
    )


def waiting_message(approval: CallApproval) -> str:
    """Return the message for the caller of a waiting call."""
    return f"{WAITING_MESSAGE} {origins.needs_superuser_message()}" if approval.needs_superuser else WAITING_MESSAGE


def _call_roots(pending: DecidedCall) -> CallRoots:
    chain = pending.call_chain.chain
    return CallRoots.of_call(
        agent_id=pending.log_row["agent_id"],
        callers=[link.id for link in chain.callers] if chain is not None else (),
        run_id=run_tokens.run_id_of(pending.request.token),
        task_id=chain.task_id if chain is not None else None,
    )


def _build_waiting(pending: DecidedCall, approval: CallApproval) -> WaitingCall | None:
    chain = pending.call_chain.chain
    if chain is None or chain.task_id is None:
        return None
    return WaitingCall(approval.pk, chain.task_id, pending.request.name, approval.expires_at)


def use_approval(pending: DecidedCall) -> bool:
    """Use up the approval for this call. An approval by a person behind this call is expired instead, so that the call
    is decided again and waits for somebody else."""
    now = pending.facts.now
    approvals = CallApproval.objects.filter(
        pk__in=[pending.facts.read_id("approval_id")], state=ApprovalState.APPROVED, expires_at__gt=now
    )
    approval = approvals.first()
    if approval is None:
        return False
    if not origins.may_use_approval(approval, _call_roots(pending)):
        approvals.update(state=ApprovalState.EXPIRED)
        return False
    if not approvals.update(state=ApprovalState.USED, used_by=pending.request.call_id):
        return False
    pending.log_row["details"]["approval_id"] = str(approval.pk)
    if approval.break_glass:
        pending.log_row["details"]["break_glass"] = True
    return True


def return_approval(pending: DecidedCall) -> None:
    CallApproval.objects.filter(pk__in=[pending.facts.read_id("approval_id")], used_by=pending.request.call_id).update(
        state=ApprovalState.APPROVED, used_by=None
    )


def _find_open_approval(pending: DecidedCall) -> CallApproval | None:
    """Find the open approval of this call. One that is past its time or has other terms is expired."""
    call_key = {
        "agent_id": pending.log_row["agent_id"],
        "tool_id": pending.log_row["tool_id"],
        "args_hash": pending.request.args_hash,
    }
    candidates = CallApproval.objects.select_for_update().filter(
        **call_key, state__in=[ApprovalState.PENDING, ApprovalState.APPROVED]
    )
    approval = candidates.first()
    if approval is None:
        return None
    if approval.expires_at <= pending.facts.now or approval.terms != facts.approval_terms(pending.facts):
        CallApproval.objects.filter(pk=approval.pk).update(state=ApprovalState.EXPIRED, sealed_arguments="")
        return None
    CallApproval.objects.filter(pk=approval.pk).update(attempts=approval.attempts + 1)
    return approval


def _has_too_many_waiting(pending: DecidedCall) -> bool:
    waiting = CallApproval.objects.filter(agent_id=pending.log_row["agent_id"], state=ApprovalState.PENDING)
    return waiting.filter(expires_at__gt=pending.facts.now).count() >= MAX_WAITING


def _create_approval(pending: DecidedCall) -> CallApproval:
    request, row, match = pending.request, pending.log_row, pending.decision.match
    approval = CallApproval(
        id=request.call_id,
        agent_id=row["agent_id"],
        agent_name=row["agent_name"],
        tool_id=row["tool_id"],
        tool_name=request.name,
        args_hash=request.args_hash,
        context=sanitization.make_storable(_build_context(pending)),
        grant_id=match.id if match is not None and match.kind == "grant" else None,
        terms=facts.approval_terms(pending.facts),
        owner_id=pending.facts.read_id("owner_id"),
        asked_at=pending.facts.now,
        expires_at=pending.facts.now + APPROVAL_LIFETIME,
    )
    text = canonical_json.encode(dict(request.arguments)).decode()
    approval.sealed_arguments = crypto.seal(text, place=sealing_place(approval))
    approval.save(force_insert=True)
    caller = Actor(ActorKind.IDENTITY, row["agent_id"], row["agent_name"])
    with bind_context(RequestContext(request.request_id, request.source)):
        events.write("approval.asked", actor=caller, subject=approval, details={"args_hash": request.args_hash})
    return approval


def _build_context(pending: DecidedCall) -> dict[str, str]:
    context, chain = pending.request.context, pending.call_chain.chain
    values = {
        "conversation_id": context.thread_id,
        "task_id": pending.log_row["task_id"],
        "asked_by": str(chain) if chain is not None else "",
        "user_instruction": context.user_instruction,
    }
    return {name: sanitization.single_line(value, 2000) for name, value in values.items() if value}


def open_arguments(approval: CallApproval) -> dict[str, Any]:
    """Return the original arguments for the person who decides. They are stored only while the approval waits."""
    arguments: dict[str, Any] = json.loads(crypto.unseal(approval.sealed_arguments, place=sealing_place(approval)))
    return arguments
