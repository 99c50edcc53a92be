"""Calls that wait for a person: who may decide, and what the decision leaves behind."""

from functools import partial
from typing import Any

from django.db import transaction
from django.db.models.functions import Now

from common import clock
from common.errors import Conflict, NotAllowed
from common.redaction.redactor import Redactor
from mcp.choices import ApprovalState
from mcp.clerk import permits
from mcp.models import CallApproval
from nhi import registry
from nhi.actors import Actor
from nhi.inputs import Problems
from nhi.models import Identity
from nhi.record import events, lines


class NotWaiting(Conflict):
    """Somebody decided before, or its time is over."""

    code = "not_waiting"


class OwnRequest(NotAllowed):
    code = "own_request"


def arguments_of(approval: CallApproval) -> dict[str, Any] | None:
    """The exact arguments while it waits; what is kept of them afterwards, redacted."""
    if approval.state == ApprovalState.PENDING and approval.sealed_arguments:
        return permits.opened(approval)
    kept: dict[str, Any] | None = approval.arguments
    return kept


def why_not(actor: Actor, approval: CallApproval) -> str:
    """Why this actor may not decide; empty when they may."""
    if not actor.may("mcp.decide_approval"):
        return "You may not decide about calls."
    if not actor.is_person and actor.id is not None:
        return "A person decides about calls, never an identity."
    if actor.id in behind(approval) and not actor.is_superuser:
        return f"{approval.agent_name} is in your hands, so someone else must decide about its calls."
    return ""


def behind(approval: CallApproval) -> set[Any]:
    """Who has the agent in hand: its owners, then and now, and who made its credentials or started its runs."""
    agent = Identity.objects.filter(pk=approval.agent_id)
    found = agent.values_list("owner_id", "backup_owner_id", "credentials__created_by_id").distinct()
    return ({one for row in found for one in row} | {approval.owner_id}) - {None}


def approve(*, actor: Actor, approval: CallApproval, reason: str) -> CallApproval:
    """Let this agent make this one call, with these arguments, within fifteen minutes."""
    return _decide(actor, approval, reason, ApprovalState.APPROVED)


def refuse(*, actor: Actor, approval: CallApproval, reason: str) -> CallApproval:
    return _decide(actor, approval, reason, ApprovalState.REFUSED)


def expire() -> int:
    """What nobody decided about in time, and permits that nobody used."""
    over = CallApproval.objects.filter(
        state__in=[ApprovalState.PENDING, ApprovalState.APPROVED], expires_at__lte=clock.database_now()
    )
    return over.update(state=ApprovalState.EXPIRED, sealed_arguments="")


def _decide(actor: Actor, approval: CallApproval, reason: str, to: ApprovalState) -> CallApproval:
    actor.require("mcp.decide_approval", "decide about calls that wait")
    if said := why_not(actor, approval):
        raise OwnRequest(said, details={"reason": "own_request"})
    problems = Problems()
    problems.reason(reason)
    problems.settle()
    with transaction.atomic():
        waiting = CallApproval.objects.select_for_update().get(pk=approval.pk)
        now = clock.database_now()
        if waiting.state != ApprovalState.PENDING or waiting.expires_at <= now:
            word = ApprovalState(waiting.state).label.lower() if waiting.expires_at > now else "past its time"
            raise NotWaiting(f"This call is {word}. Nothing was changed.")
        waiting.arguments = lines.storable(Redactor().value(permits.opened(waiting)))
        waiting.sealed_arguments = ""
        waiting.state, waiting.reason = to, reason
        waiting.decided_by_id, waiting.decided_by_name = actor.id, actor.name
        waiting.expires_at = now + permits.WAIT
        waiting.save()
        CallApproval.objects.filter(pk=waiting.pk).update(decided_at=Now())
        event = "approval.approved" if to == ApprovalState.APPROVED else "approval.refused"
        details = {"args_hash": waiting.args_hash, "attempts": waiting.attempts}
        if actor.id in behind(waiting):
            details["break_glass"] = True
        events.write(event, actor=actor, subject=waiting, details=details, reason=reason)
        waiting.refresh_from_db()
        # Whoever follows the task is told; the decision stands whether or not that works.
        transaction.on_commit(partial(registry.call_decided, waiting.pk), robust=True)
    return waiting
