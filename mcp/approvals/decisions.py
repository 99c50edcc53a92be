"""Approves, refuses and expires calls that wait for a person; reads their arguments."""

from collections.abc import Collection
from functools import partial
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models.functions import Now

from common.db import clock
from common.errors import Conflict, NotAllowed
from common.redaction.redactor import Redactor
from mcp.approvals import origins
from mcp.choices import ApprovalState
from mcp.gateway.batch import call_approvals
from mcp.models import CallApproval
from nhi import hooks
from nhi.actors import Actor
from nhi.audit import events, sanitization
from nhi.validation import Problems


class ApprovalNotWaiting(Conflict):
    """The approval is already decided or has expired."""

    code = "not_waiting"


class OwnCallApproval(NotAllowed):
    """The actor may not decide about this call: it is an identity, or a person who is an origin of the call."""

    code = "own_request"


def read_arguments(approval: CallApproval) -> dict[str, Any] | None:
    """Return the exact arguments while the approval waits; afterwards the stored, redacted arguments."""
    if approval.state == ApprovalState.PENDING and approval.sealed_arguments:
        return call_approvals.open_arguments(approval)
    redacted_arguments: dict[str, Any] | None = approval.arguments
    return redacted_arguments


def why_not_decide(actor: Actor, approval: CallApproval) -> str:
    """Return why this actor may not decide; empty when they may."""
    return why_not_decide_each(actor, [approval]).get(approval.pk, "")


def why_not_decide_each(actor: Actor, rows: Collection[CallApproval]) -> dict[UUID, str]:
    """Like `why_not_decide` for several approvals. Approvals that the actor may decide about are left out."""
    if not actor.may("mcp.decide_approval"):
        return {row.pk: "You may not decide about calls." for row in rows}
    if not actor.is_person and actor.id is not None:
        return {row.pk: "A person decides about calls, never an identity." for row in rows}
    return {} if actor.is_superuser else origins.why_barred_each(actor, rows)


def approve(*, actor: Actor, approval: CallApproval, reason: str) -> CallApproval:
    """Allow this agent to make this one call, with these arguments, within fifteen minutes."""
    return _decide(actor, approval, reason, ApprovalState.APPROVED)


def refuse(*, actor: Actor, approval: CallApproval, reason: str) -> CallApproval:
    return _decide(actor, approval, reason, ApprovalState.REFUSED)


def expire_overdue() -> int:
    """Expire approvals that nobody decided about in time, and approved ones that were not used."""
    overdue = CallApproval.objects.filter(
        state__in=[ApprovalState.PENDING, ApprovalState.APPROVED], expires_at__lte=clock.database_now()
    )
    return overdue.update(state=ApprovalState.EXPIRED, sealed_arguments="")


def _decide(actor: Actor, approval: CallApproval, reason: str, state: ApprovalState) -> CallApproval:
    actor.require("mcp.decide_approval", "decide about calls that wait")
    if objection := why_not_decide(actor, approval):
        raise OwnCallApproval(objection, details={"reason": "own_request"})
    problems = Problems()
    problems.check_reason(reason)
    problems.raise_if_any()
    with transaction.atomic():
        pending_approval = _locked_pending(approval)
        # The origins of the call may have changed since it was made. They are stored even if this decision is refused.
        origins.refresh(pending_approval)
        barred_message = origins.why_barred(actor, pending_approval)
        if actor.is_superuser or not barred_message:
            _write_decision(actor, pending_approval, reason, state, break_glass=bool(barred_message))
            return pending_approval
    raise OwnCallApproval(barred_message, details={"reason": "own_request"})


def _locked_pending(approval: CallApproval) -> CallApproval:
    pending_approval = CallApproval.objects.select_for_update().get(pk=approval.pk)
    is_over = pending_approval.expires_at <= clock.database_now()
    if pending_approval.state != ApprovalState.PENDING or is_over:
        state_label = "past its time" if is_over else ApprovalState(pending_approval.state).label.lower()
        raise ApprovalNotWaiting(f"This call is {state_label}. Nothing was changed.")
    return pending_approval


def _write_decision(
    actor: Actor, approval: CallApproval, reason: str, state: ApprovalState, *, break_glass: bool
) -> None:  # fmt: skip
    approval.arguments = sanitization.make_storable(Redactor().redact_value(call_approvals.open_arguments(approval)))
    approval.sealed_arguments = ""
    approval.state, approval.reason = state, reason
    approval.decided_by_id, approval.decided_by_name = actor.id, actor.name
    approval.break_glass = break_glass
    approval.expires_at = clock.database_now() + call_approvals.APPROVAL_LIFETIME
    approval.save()
    CallApproval.objects.filter(pk=approval.pk).update(decided_at=Now())
    event = "approval.approved" if state == ApprovalState.APPROVED else "approval.refused"
    details: dict[str, Any] = {"args_hash": approval.args_hash, "attempts": approval.attempts}
    if break_glass:
        details["break_glass"] = True
    events.write(event, actor=actor, subject=approval, details=details, reason=reason)
    approval.refresh_from_db()
    # Notify the task of the call. The decision is kept even if the notification fails.
    transaction.on_commit(partial(hooks.notify_call_decided, approval.pk), robust=True)
