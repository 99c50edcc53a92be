"""One verb for several grants: counted first, then each with its own result."""

from collections.abc import Callable
from typing import Any

from django.http import HttpResponse
from django.utils.functional import cached_property

from common.admin import several
from common.admin.dialogs import Effect, counted
from common.admin.forms import ConsoleForm
from common.admin.pages import link, render
from common.errors import NotAllowed
from nhi import grants, roles
from nhi.access import ItemResult, attempt
from nhi.admin.base import ActingDialog
from nhi.admin.grants_change import RenewForm, RevokeForm
from nhi.admin.grants_page import seen
from nhi.models import ToolPermission
from nhi.models.grants import Grant

NOUNS = {
    "toolpermission": ("grant to a tool", "grants to tools"),
    "nhipermission": ("grant between identities", "grants between identities"),
    "userpermission": ("grant to a person", "grants to people"),
    "roleassignment": ("role assignment", "role assignments"),
}


class Several(ActingDialog):
    """Works on what was ticked and can be seen; what the verb does not fit is skipped and said."""

    template = "nhi/grants/bulk.html"
    model: type[Grant] = ToolPermission
    verb = ""
    needs: tuple[str, ...] = ()

    def check(self) -> None:
        doing = f"{self.verb.lower()} grants"
        if self.actor.only_reads:
            raise NotAllowed(f"You may not {doing}.")
        for need in self.needs:
            self.actor.require(f"nhi.{need}_{self.name}", doing)

    @property
    def name(self) -> str:
        return str(self.model._meta.model_name)

    @cached_property
    def chosen(self) -> list[Any]:
        rows = seen(self.model, self.actor).filter(pk__in=several.ticked(self.request))
        return list(rows.order_by("-created_at", "-id"))

    @cached_property
    def fitting(self) -> list[Any]:
        return [one for one in self.chosen if not self.misfit(one)]

    def misfit(self, one: Any) -> str:
        """Why the verb has nothing to do for this one; empty when it has."""
        return "closed before" if one.revoked_at is not None else ""

    def back(self) -> str:
        return link(f"nhi_{self.name}_changelist")

    @property
    def title(self) -> str:  # type: ignore[override]  # the number is known once there is a request
        count = len(self.fitting)
        return f"{self.verb} {count} {NOUNS[self.name][count != 1]}"

    @property
    def button(self) -> str:  # type: ignore[override]  # the same
        return self.title if self.fitting else ""

    @property
    def typed(self) -> str:  # type: ignore[override]  # the same
        return several.to_type(len(self.fitting)) if self.danger else ""

    def context(self) -> dict[str, Any]:
        named = [str(one) for one in self.fitting]
        return {
            "title": self.title,
            **several.named(named),
            "skipped": [f"{one}: {why}" for one in self.chosen if (why := self.misfit(one))],
        }

    def each(self, form: ConsoleForm) -> Callable[[Any], Any]:
        raise NotImplementedError

    def act(self, form: ConsoleForm) -> HttpResponse:
        verb = self.each(form)
        results = [
            attempt(self.name, str(one), one.pk, lambda one=one: verb(one), done="done")
            for one in self.fitting
        ]  # fmt: skip
        done = sum(item.result == "done" for item in results)
        skipped = [
            ItemResult("skipped", self.name, str(one), one.pk, message=f"It was {why}.")
            for one in self.chosen
            if (why := self.misfit(one))
        ]
        title = f"{self.verb}: {done} of {len(self.chosen)} done"
        return render(self.request, "console/results.html", title=title, results=[*results, *skipped], back=self.back())


class RevokeSeveral(Several):
    verb = "Revoke"
    needs = ("revoke",)
    danger = True
    form_class = RevokeForm
    lead = "Each ends the moment it is done, in a transaction of its own."

    def effects(self) -> list[Effect]:
        return [
            counted("grants", len(self.fitting), "Ends {} grant", "Ends {} grants"),
            counted("holders", self._holders(), "Takes access from {} holder", "Takes access from {} holders"),
        ]

    def _holders(self) -> int:
        column = {"nhipermission": "source_id", "userpermission": "user_id", "roleassignment": "identity_id"}
        return len({getattr(one, column.get(self.name, "agent_id")) for one in self.fitting})

    def each(self, form: ConsoleForm) -> Callable[[Any], Any]:
        reason = form.cleaned_data["reason"]
        if self.name == "roleassignment":
            return lambda one: roles.unassign(actor=self.actor, assignment=one, reason=reason)
        return lambda one: grants.revoke(actor=self.actor, grant=one, reason=reason)


class RenewSeveral(Several):
    verb = "Renew"
    needs = ("add", "revoke")
    form_class = RenewForm
    lead = "The same limits go on in new grants, and the old ones are closed."

    def each(self, form: ConsoleForm) -> Callable[[Any], Any]:
        assert isinstance(form, RenewForm)
        reason, expires_at = form.cleaned_data["reason"], form.expires_at
        return lambda one: grants.renew(actor=self.actor, grant=one, expires_at=expires_at, reason=reason)


VIEWS: dict[str, tuple[str, Any]] = {
    "bulk_revoke": ("bulk/revoke/", RevokeSeveral),
    "bulk_renew": ("bulk/renew/", RenewSeveral),
}
