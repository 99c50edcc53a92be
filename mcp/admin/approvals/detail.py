"""One call that waits: exactly what would be sent, who asks and why, and what was said of its like before."""

import json
from typing import Any

from django.utils import timezone
from django.utils.functional import cached_property

from common.console import badges
from common.console.badges import Badge
from common.console.pages import Control, Crumb, link, link_if_any
from common.errors import GatehouseError, NotFound
from common.redaction.redactor import Redactor
from common.templatetags.console import spell_invisible
from mcp.admin.calls import cells
from mcp.approvals import decisions
from mcp.approvals.origins import needs_superuser_message
from mcp.choices import ApprovalState
from mcp.models import CallApproval, Tool
from nhi.authorization import explain
from nhi.console.base import ActorMixin, ActorPage
from nhi.decisions import reasons
from nhi.models import Identity, InvocationLog, ToolPermission

#: Past calls alike that are shown.
SHOWN = 8
#: Pages show no more of the arguments than this, unless somebody asks for the whole.
LONGEST_ARGUMENTS = 20_000
#: Longer ones are shown without line breaks: a line for each of many small values is much longer than they are.
LONGEST_INDENTED = 200_000
WHOLE = "arguments=whole"
OPEN = (ApprovalState.PENDING, ApprovalState.APPROVED)


def standing(approval: CallApproval) -> Badge:
    """What is past its time has expired, also before somebody wrote that down."""
    late = approval.state in OPEN and approval.expires_at <= timezone.now()
    return badges.find("mcp.ApprovalState", ApprovalState.EXPIRED if late else approval.state)


class OfApproval(ActorMixin):
    """A page or dialog about one call that waits, or has waited."""

    kwargs: dict[str, Any]
    approval: CallApproval

    def check(self) -> None:
        super().check()
        found = CallApproval.objects.visible_to(self.actor).filter(pk=self.kwargs["pk"]).first()
        if found is None:
            raise NotFound
        self.approval = found

    @cached_property
    def why_not(self) -> str:
        return decisions.why_not_decide(self.actor, self.approval)

    @property
    def is_waiting(self) -> bool:
        return self.approval.state == ApprovalState.PENDING and self.approval.expires_at > timezone.now()

    def arguments(self) -> str:
        """As they were sent for who decides; everybody else reads them without secrets."""
        sent = decisions.read_arguments(self.approval)
        if sent is None:
            return ""
        readable = Redactor().redact_value(sent) if self.why_not else sent
        text = json.dumps(readable, ensure_ascii=False, sort_keys=True)
        if len(text) > LONGEST_INDENTED:
            return text
        return json.dumps(readable, indent=2, ensure_ascii=False, sort_keys=True)

    @cached_property
    def arguments_text(self) -> str:
        return self.arguments()

    @cached_property
    def is_whole(self) -> bool:
        """Whether this page shows all of the arguments."""
        return len(self.arguments_text) <= LONGEST_ARGUMENTS or self.request.GET.get("arguments") == "whole"

    def back(self) -> str:
        return link("mcp_callapproval_page", self.approval.pk)

    def still_refused(self) -> list[str]:
        """Why a yes alone would not let it pass as things stand now, and what would."""
        one = self.approval
        try:
            told = explain.explain(
                actor=self.actor,
                caller_id=one.agent_id,
                target_id=one.tool_id,
                parameters=decisions.read_arguments(one),
            )
        except GatehouseError:
            return []
        failed = next((check for check in told.checks if check.outcome == "fail" and check.name != "approval"), None)
        if failed is None:
            return []
        names = {"caller": told.caller.name, "target": told.target.name}
        return [failed.message, reasons.remedy(failed.reason, check=failed.name, **names)]

    @property
    def _needs_superuser(self) -> bool:
        """Not said to whoever may decide: a person may have been given the role since the call was last made."""
        is_concerned = bool(self.why_not) or self.actor.is_superuser
        return self.is_waiting and self.approval.needs_superuser and is_concerned

    def asked(self) -> dict[str, Any]:
        """What page and dialogs say of it."""
        return {
            "approval": self.approval,
            "arguments": self.arguments_text,
            "longest": len(self.arguments_text) if self.is_whole else LONGEST_ARGUMENTS,
            "whole_url": "" if self.is_whole else f"{self.request.path}?{WHOLE}",
            "nobody_decides": needs_superuser_message() if self._needs_superuser else "",
            "exact": self.is_waiting and not self.why_not,
        }


class ApprovalPage(OfApproval, ActorPage):
    template = "admin/mcp/approvals/page.html"

    def context(self) -> dict[str, Any]:
        one = self.approval
        tool = Tool.objects.visible_to(self.actor).select_related("approved", "server").filter(pk=one.tool_id).first()
        return {
            **self.asked(),
            "title": spell_invisible(f"{one}: {standing(one).label.lower()}, asked {one.asked_at:%H:%M:%S}"),
            "heading": str(one),
            "state": standing(one),
            "waiting": self.is_waiting,
            "still_refused": self.still_refused() if self.is_waiting else [],
            "why_not": self.why_not if self.is_waiting else "",
            "controls": self._controls(),
            "crumb": Crumb("Approvals", link("mcp_callapproval_changelist")),
            "agent": Identity.objects.visible_to(self.actor).filter(pk=one.agent_id).first(),
            "tool": tool,
            "description": tool.approved.body.get("description", "") if tool and tool.approved else "",
            "context_said": one.context,
            "grant_url": self._grant_url(),
            "alike": self._alike(),
            "used_url": link_if_any("nhi_invocationlog_call", one.used_by) if one.used_by else "",
            "api": f"/api/nhi/approvals/{one.pk}",
        }

    def _controls(self) -> list[Control]:
        """For whoever may decide; what one asked for oneself is drawn with the reason."""
        if not self.is_waiting or self.actor.only_reads or not self.actor.may("mcp.decide_approval"):
            return []
        pk, blocked = self.approval.pk, self.why_not
        return [
            Control("Approve", link("mcp_callapproval_approve", pk), "check", blocked=blocked),
            *([] if blocked else [Control("Refuse", link("mcp_callapproval_refuse", pk), "block")]),
        ]

    def _grant_url(self) -> str:
        if self.approval.grant_id is None:
            return ""
        seen = ToolPermission.objects.visible_to(self.actor).filter(pk=self.approval.grant_id)
        return link("nhi_toolpermission_page", self.approval.grant_id) if seen.exists() else ""

    def _alike(self) -> list[dict[str, Any]]:
        """What this agent called of this tool before, newest first."""
        server, _, tool = self.approval.tool_name.partition("__")
        seen = InvocationLog.objects.visible_to(self.actor)
        rows = seen.filter(agent_id=self.approval.agent_id, tool_name=server, method=tool)
        return [
            {
                "call": row,
                "outcome": cells.outcome(row),
                "same_arguments": row.args_hash == self.approval.args_hash,
            }
            for row in rows.order_by("-timestamp", "-id")[:SHOWN]
        ]
