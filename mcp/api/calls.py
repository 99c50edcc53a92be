"""Calling a tool, and asking what became of a call."""

from datetime import datetime
from typing import Any
from uuid import UUID

from rest_framework.response import Response

from common import context
from common.api.operations import answering, operation
from common.errors import InvalidInput, NotAllowed, NotFound
from common.executors import background_loop
from mcp.api.shapes.approvals import state_of
from mcp.api.shapes.calls import CalledShape, CallGiven, CallShape, PendingShape
from mcp.choices import ApprovalState
from mcp.gateway import pipeline
from mcp.gateway.batch import call_approvals
from mcp.gateway.types import CallRequest, split_tool_name
from mcp.models import Call, CallApproval, Tool
from mcp.server import rest_renderer
from nhi.api.views import ApiView
from nhi.models import Identity, InvocationLog

REFUSALS = (400, 403, 404, 413, 429, 502, 504)
#: Longer than any call may take; what ends a call sooner is its own deadline.
LONGEST = 660.0
NOT_PEOPLE = "Only an identity calls tools here; people try them in the console's playground."


class CallTool(ApiView):
    #: Its row is the record of it.
    opens = False
    name: str

    def find(self, **path: Any) -> None:
        """A call is decided where calls are; for every other method the tool is there for who may see it."""
        self.name = path["name"]
        if self.request.method == "POST":
            return
        server, tool = split_tool_name(self.name)
        if not Tool.objects.visible_to(self.actor).filter(server__name=server, name=tool).exists():
            raise NotFound

    @answering(takes=CallGiven, gives=CalledShape, also={202: PendingShape}, refusals=REFUSALS)
    def post(self) -> Response:
        """Call a tool

        For identities; people use the playground (403 `identities_only`). A tool that does not exist and one that was
        never held get the same 404. 202 when the call waits for a person. A tool's own error is a 502 with reason
        `tool_error` and `details.result`; 503 with `breaker_open` while its server is left alone."""
        if self.actor.is_person:
            raise NotAllowed(NOT_PEOPLE, details={"reason": "identities_only"})
        outcome = background_loop.run(pipeline.call_tool(self._build_request()), timeout=LONGEST)
        reply = rest_renderer.render_result(outcome)
        return Response(reply.body, status=reply.status, headers=reply.headers)

    def _build_request(self) -> CallRequest:
        """Build the call. An invalid body is reported only after the decision whether the caller may see the tool."""
        token = self.caller.shown
        assert token is not None  # identities show one
        try:
            fields = rest_renderer.parse_call_body(self.request.data)
        except InvalidInput as error:
            fields = rest_renderer.describe_invalid_body(error)
        server, tool = split_tool_name(self.name)
        here = context.current()
        return CallRequest(token, server, tool, request_id=here.request_id, source=here.source, **fields)


class OneCall(ApiView):
    """By its row in the log, or by its lease while it is under way."""

    row: InvocationLog | Call

    def find(self, **path: UUID) -> None:
        rows = InvocationLog.objects.visible_to(self.actor)
        found = rows.filter(pk=path["call_id"]).first() or self._leases().filter(pk=path["call_id"]).first()
        if found is None:
            raise NotFound
        self.row = found

    @operation(gives=CallShape)
    def get(self) -> dict[str, Any]:
        """Say what became of a call

        Of one's own; for people, of those of the identities they manage. A call that waits for a person is followed
        through its approval: once that is `approved`, send the call again."""
        if isinstance(self.row, Call):
            return _in_flight(self.row)
        return _logged(self.row)

    def _leases(self) -> Any:
        if self.actor.may("nhi.view_invocationlog"):
            return Call.objects.all()
        if self.actor.is_person:
            return Call.objects.filter(agent_id__in=Identity.objects.managed_by(self.actor).values("pk"))
        leases = Call.objects.filter(agent_id__in=[self.actor.id])
        return leases if self.actor.run_id is None else leases.filter(row__run_id=str(self.actor.run_id))


def _in_flight(lease: Call) -> dict[str, Any]:
    begun = lease.row
    return {
        **_about(lease.pk, lease.agent_id, f"{begun['tool_name']}__{begun['method']}"),
        "status": "pending",
        "asked_at": datetime.fromisoformat(begun["timestamp"]),
        "reason": "in_flight",
    }


def _logged(row: InvocationLog) -> dict[str, Any]:
    waited = row.reason == "approval_required"
    approval = CallApproval.objects.filter(pk=row.details["approval_id"]).first() if waited else None
    about = {
        **_about(row.pk, row.agent_id, f"{row.tool_name}__{row.method}"),
        "asked_at": row.timestamp,
        "reason": row.reason,
        "outcome": row.status,
    }
    if approval is None:
        return {**about, "status": "done"}
    status = state_of(approval)
    return {
        **about,
        "status": status,
        "message": call_approvals.waiting_message(approval) if status == ApprovalState.PENDING else None,
        "approval_id": approval.pk,
        "expires_at": approval.expires_at,
        "used_by": approval.used_by,
    }


def _about(call_id: UUID, agent_id: UUID, tool: str) -> dict[str, Any]:
    nothing = dict.fromkeys(("approval_id", "expires_at", "used_by", "outcome", "message"))
    return {"call_id": call_id, "agent_id": agent_id, "tool": tool, **nothing}
