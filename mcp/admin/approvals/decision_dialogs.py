"""Approving and refusing a call that waits: the arguments before the eyes, a reason on record."""

from typing import Any

from django.contrib import messages
from django.core.signing import Signer
from django.utils.crypto import constant_time_compare

from common.console.confirmation_dialogs import ApiExample
from common.console.forms import ConsoleForm, ReasonField
from common.errors import Conflict, NotAllowed
from common.templatetags.console import spell_invisible
from mcp.admin.approvals.detail import OfApproval
from mcp.approvals import decisions
from nhi.console import attention_counts
from nhi.console.base import ActorDialog


class ArgumentsNotShown(Conflict):
    """Somebody would approve what they were not shown."""

    code = "arguments_not_shown"


class DecisionForm(ConsoleForm):
    #: Nothing stands there from the start: a reason that nobody typed says nothing.
    reason = ReasonField()


class Decision(OfApproval, ActorDialog):
    template = "admin/mcp/approvals/decide.html"
    wide = True
    form_class = DecisionForm
    verb, done = "", ""

    def check(self) -> None:
        super().check()
        if self.actor.only_reads or self.why_not:
            raise NotAllowed(self.why_not or "You may not decide about calls.")

    @property
    def title(self) -> str:  # type: ignore[override]  # the names are known once there is an approval
        return spell_invisible(f"{self.verb.capitalize()} {self.approval}")

    @property
    def button(self) -> str:  # type: ignore[override]  # the same
        return self.title

    def context(self) -> dict[str, Any]:
        return {"title": self.title, **self.asked()}

    def by_api(self) -> ApiExample:
        return ApiExample(f"/api/nhi/approvals/{self.approval.pk}/{self.verb}", {"reason": "…"})

    def act(self, form: ConsoleForm) -> str:
        self.decide(form.cleaned_data["reason"])
        attention_counts.clear_cache(self.actor)
        messages.success(self.request, spell_invisible(f"{self.approval}: {self.done}"))
        return self.back()

    def decide(self, reason: str) -> None:
        raise NotImplementedError


class Approve(Decision):
    verb = "approve"
    done = "approved. The agent has 15 minutes to make this call, once."
    lead = "The agent may then make this one call, with exactly these arguments, once, within 15 minutes."

    @property
    def button(self) -> str:  # type: ignore[override]  # there is none before the whole is shown
        return self.title if self.is_whole else ""

    def context(self) -> dict[str, Any]:
        proof = self._proof() if self.is_whole else ""
        return {**super().context(), "still_refused": self.still_refused(), "arguments_proof": proof}

    def act(self, form: ConsoleForm) -> str:
        if not constant_time_compare(self.request.POST.get("arguments_proof", ""), self._proof()):
            raise ArgumentsNotShown(
                "The form does not prove that it showed all of the arguments. Open the approval again, show the whole "
                "of its arguments, and approve it there. Nothing was changed."
            )
        return super().act(form)

    def _proof(self) -> str:
        """What stands in a form that shows this person all of these arguments, and nowhere else."""
        signed = f"{self.approval.pk}:{self.approval.args_hash}:{self.actor.id}"
        return Signer(salt="mcp.approval.arguments").signature(signed)

    def decide(self, reason: str) -> None:
        decisions.approve(actor=self.actor, approval=self.approval, reason=reason)


class Refuse(Decision):
    verb = "refuse"
    done = "refused. The agent is told so when it asks again."
    lead = "The call is not made. The agent may ask again, and you see how often it did."

    def decide(self, reason: str) -> None:
        decisions.refuse(actor=self.actor, approval=self.approval, reason=reason)
