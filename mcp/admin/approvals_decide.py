"""Approving and refusing a call that waits: the arguments before the eyes, a reason on record."""

from typing import Any

from django.contrib import messages

from common.admin.dialogs import Call
from common.admin.forms import ConsoleForm, ReasonField
from common.errors import NotAllowed
from common.templatetags.console import spelled
from mcp import approvals
from mcp.admin.approvals_page import OfApproval
from nhi.admin import counts
from nhi.admin.base import ActingDialog

APPROVED = ("Arguments checked, expected", "Asked for by its owner", "Planned work")
REFUSED = ("Not expected now", "The arguments are wrong", "Too risky")


class ApproveForm(ConsoleForm):
    reason = ReasonField(*APPROVED)


class RefuseForm(ConsoleForm):
    reason = ReasonField(*REFUSED)


class Decision(OfApproval, ActingDialog):
    template = "admin/mcp/approvals/decide.html"
    wide = True
    verb, done = "", ""

    def check(self) -> None:
        super().check()
        if self.actor.only_reads or self.why_not:
            raise NotAllowed(self.why_not or "You may not decide about calls.")

    @property
    def title(self) -> str:  # type: ignore[override]  # the names are known once there is an approval
        return spelled(f"{self.verb.capitalize()} {self.approval}")

    @property
    def button(self) -> str:  # type: ignore[override]  # the same
        return self.title

    def context(self) -> dict[str, Any]:
        return {"title": self.title, **self.asked()}

    def by_api(self) -> Call:
        return Call(f"/api/nhi/approvals/{self.approval.pk}/{self.verb}", {"reason": "…"})

    def act(self, form: ConsoleForm) -> str:
        self.decide(form.cleaned_data["reason"])
        counts.forget(self.actor)
        messages.success(self.request, spelled(f"{self.approval}: {self.done}"))
        return self.back()

    def decide(self, reason: str) -> None:
        raise NotImplementedError


class Approve(Decision):
    verb = "approve"
    done = "approved. The agent has 15 minutes to make this call, once."
    lead = "The agent may then make this one call, with exactly these arguments, once, within 15 minutes."
    form_class = ApproveForm

    def context(self) -> dict[str, Any]:
        return {**super().context(), "still_refused": self.still_refused()}

    def decide(self, reason: str) -> None:
        approvals.approve(actor=self.actor, approval=self.approval, reason=reason)


class Refuse(Decision):
    verb = "refuse"
    done = "refused. The agent is told so when it asks again."
    lead = "The call is not made. The agent may ask again, and you see how often it did."
    form_class = RefuseForm

    def decide(self, reason: str) -> None:
        approvals.refuse(actor=self.actor, approval=self.approval, reason=reason)
