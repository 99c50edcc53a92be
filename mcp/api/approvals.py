"""Calls that wait for a person, and the decisions about them."""

from typing import Any
from uuid import UUID

from django.db.models import Exists, OuterRef, Q
from django.db.models.functions import Now

from common.api.operations import listing, operation
from common.api.shapes import Reason
from mcp.api.shapes.approvals import ApprovalFilters, ApprovalShape
from mcp.approvals import decisions
from mcp.choices import ApprovalState
from mcp.models import CallApproval
from nhi.actors import Actor
from nhi.api.views import ApiView

OPEN = (ApprovalState.PENDING, ApprovalState.APPROVED)


def rows(actor: Actor) -> Any:
    """Each with whether its reader is shown the exact arguments."""
    decidable = CallApproval.objects.decidable_by(actor).filter(pk=OuterRef("pk"))
    return CallApproval.objects.annotate(reader_decides=Exists(decidable))


def in_state(found: Any, state: str) -> Any:
    """What is past its time has expired, whatever the row still says."""
    over = Q(state__in=OPEN, expires_at__lte=Now())
    if state == ApprovalState.EXPIRED:
        return found.filter(Q(state=state) | over)
    return found.filter(state=state).exclude(over)


class Approvals(ApiView):
    @listing(gives=ApprovalShape, filters=ApprovalFilters)
    def get(self, asked: dict[str, Any]) -> Any:
        """List calls that wait, or waited

        Newest first. An identity sees its own; a person without the right to see them all those of the identities
        they manage."""
        state = asked.pop("state", None)
        found = rows(self.actor).visible_to(self.actor).filter(**asked)
        return found if state is None else in_state(found, state)


class OfApproval(ApiView):
    approval: CallApproval

    def find(self, **path: UUID) -> None:
        self.approval = self.visible(rows(self.actor), path["approval_id"])


class OneApproval(OfApproval):
    @operation(gives=ApprovalShape)
    def get(self) -> CallApproval:
        """Read a call that waits"""
        return self.approval


class Approve(OfApproval):
    @operation(takes=Reason, gives=ApprovalShape, needs="mcp.decide_approval", refusals=(409,))
    def post(self, given: dict[str, Any]) -> CallApproval:
        """Approve a call that waits

        It may then be made once, by this agent with these arguments, within 15 minutes. Whoever stands behind the
        call may not decide about it: 403 `own_request`."""
        return decisions.approve(actor=self.actor, approval=self.approval, reason=given["reason"])


class Refuse(OfApproval):
    @operation(takes=Reason, gives=ApprovalShape, needs="mcp.decide_approval", refusals=(409,))
    def post(self, given: dict[str, Any]) -> CallApproval:
        """Refuse a call that waits

        The same call asks anew when it is sent again."""
        return decisions.refuse(actor=self.actor, approval=self.approval, reason=given["reason"])
