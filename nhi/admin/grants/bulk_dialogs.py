"""One verb for several grants of one kind."""

from collections.abc import Callable
from typing import Any

from django.db.models import QuerySet

from common.console.confirmation_dialogs import Effect, counted
from common.console.forms import ConsoleForm
from nhi.access import grants, roles
from nhi.admin.grants import change
from nhi.admin.grants.change import RenewForm, RevokeForm
from nhi.admin.grants.detail import seen
from nhi.console.bulk_dialog import BulkDialog
from nhi.models import Identity, ToolPermission
from nhi.models.grants import Grant

NOUNS = {
    "toolpermission": ("grant to a tool", "grants to tools"),
    "nhipermission": ("grant between identities", "grants between identities"),
    "userpermission": ("grant to a person", "grants to people"),
    "roleassignment": ("role assignment", "role assignments"),
}


class Bulk(BulkDialog[Any]):
    """Of grants of one kind."""

    model: type[Grant] = ToolPermission
    needs: tuple[str, ...] = ()

    def check(self) -> None:
        super().check()
        for need in self.needs:
            self.actor.require(f"nhi.{need}_{self.kind}", f"{self.verb.lower()} grants")

    @property
    def kind(self) -> str:  # type: ignore[override]  # by the model, which the address says
        return str(self.model._meta.model_name)

    @property
    def nouns(self) -> tuple[str, str]:  # type: ignore[override]  # the same
        return NOUNS[self.kind]

    @property
    def list_name(self) -> str:  # type: ignore[override]  # the same
        return f"nhi_{self.kind}_changelist"

    def rows(self) -> QuerySet[Any]:
        return seen(self.model, self.actor)

    def misfit(self, one: Any) -> str:
        return "was closed before" if one.revoked_at is not None else ""


class Revoke(Bulk):
    verb = "Revoke"
    needs = ("revoke",)
    danger = True
    form_class = RevokeForm
    lead = "Each ends the moment it is done, in a transaction of its own."

    def effects(self) -> list[Effect]:
        return [
            counted("grants", len(self.fitting), "Ends {} grant", "Ends {} grants"),
            counted("holders", self._holders(), "Takes access from {} holder", "Takes access from {} holders"),
            *(change.ongoing_work_between(self._pairs()) if self.kind == "nhipermission" else ()),
        ]

    def _pairs(self) -> list[tuple[Identity, Identity]]:
        return [(grant.source, grant.target) for grant in self.fitting]

    def _holders(self) -> int:
        column = {"nhipermission": "source_id", "userpermission": "user_id", "roleassignment": "identity_id"}
        return len({getattr(one, column.get(self.kind, "agent_id")) for one in self.fitting})

    def each(self, form: ConsoleForm) -> Callable[[Any], Any]:
        reason = form.cleaned_data["reason"]
        if self.kind == "roleassignment":
            return lambda one: roles.unassign(actor=self.actor, assignment=one, reason=reason)
        return lambda one: grants.revoke(actor=self.actor, grant=one, reason=reason)


class Renew(Bulk):
    verb = "Renew"
    needs = ("add", "revoke")
    form_class = RenewForm
    lead = "The same limits go on in new grants, and the old ones are closed."

    def each(self, form: ConsoleForm) -> Callable[[Any], Any]:
        assert isinstance(form, RenewForm)
        reason, expires_at = form.cleaned_data["reason"], form.expires_at
        return lambda one: grants.renew(actor=self.actor, grant=one, expires_at=expires_at, reason=reason)


VIEWS: dict[str, tuple[str, Any]] = {
    "bulk_revoke": ("bulk/revoke/", Revoke),
    "bulk_renew": ("bulk/renew/", Renew),
}
