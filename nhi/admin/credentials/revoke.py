"""Revoking from the list: several at once, and what a person signs requests with."""

from collections.abc import Callable
from typing import Any

from django.contrib import messages
from django.db.models import QuerySet
from django.urls import path
from django.utils.functional import cached_property

from common.console.confirmation_dialogs import ApiExample, Effect, counted
from common.console.forms import ConsoleForm
from common.console.pages import link
from common.errors import NotAllowed, NotFound
from nhi.actors import Actor
from nhi.admin.identities.credentials import RevokeForm
from nhi.console.base import ActorDialog
from nhi.console.bulk_dialog import BulkDialog
from nhi.credentials import credentials
from nhi.models import Credential


class BulkRevoke(BulkDialog[Credential]):
    verb = "Revoke"
    nouns = ("credential", "credentials")
    kind = "credential"
    list_name = "nhi_credential_changelist"
    order = ("pk",)
    form_class = RevokeForm
    danger = True
    lead = "Each ends at once, with every short-lived token made from it. What has ended already is left alone."

    def rows(self) -> QuerySet[Credential]:
        return _seen(self.actor)

    def misfit(self, one: Credential) -> str:
        return "" if one.state == "live" else "has ended"

    def called(self, one: Credential) -> str:
        return f"{one.identity or one.user} {one}"

    def effects(self) -> list[Effect]:
        ids = {one.identity_id for one in self.fitting if one.identity_id}
        going = {one.pk for one in self.fitting}
        left = Credential.objects.live().filter(identity__in=ids).exclude(pk__in=going)
        mute = ids - set(left.values_list("identity_id", flat=True))
        return [
            counted("credentials", len(self.fitting), "Ends {} credential", "Ends {} credentials"),
            counted(
                "mute", len(mute), "Leaves {} identity without any: it cannot call any more",
                "Leaves {} identities without any: they cannot call any more",
            ),
        ]  # fmt: skip

    def each(self, form: ConsoleForm) -> Callable[[Credential], Any]:
        reason = form.cleaned_data["reason"]
        return lambda one: credentials.revoke(actor=self.actor, credential=one, reason=reason)


class RevokePersonal(ActorDialog):
    """A token that a person made for themselves."""

    form_class = RevokeForm
    danger = True

    @cached_property
    def credential(self) -> Credential:
        found = _seen(self.actor).filter(pk=self.kwargs["pk"], user__isnull=False).first()
        if found is None:
            raise NotFound
        return found

    def check(self) -> None:
        if self.actor.only_reads:
            raise NotAllowed("You may not revoke credentials.")
        if self.credential.user_id != self.actor.id:
            self.actor.require("nhi.change_user", "handle other people's tokens")

    @property
    def button(self) -> str:  # type: ignore[override]  # the id is known once there is a credential
        return f"Revoke {self.credential}"

    def context(self) -> dict[str, Any]:
        return {"title": f"Revoke a token of {self.credential.user}"}

    def back(self) -> str:
        return link("nhi_credential_changelist")

    def by_api(self) -> ApiExample:
        return ApiExample(f"/api/nhi/credentials/{self.credential.pk}/revoke", {"reason": "…"})

    def effects(self) -> list[Effect]:
        return [counted("credentials", 1, "Ends this token at once", "")]

    def act(self, form: ConsoleForm) -> str:
        credentials.revoke(actor=self.actor, credential=self.credential, reason=form.cleaned_data["reason"])
        messages.success(self.request, f"The token {self.credential} was revoked.")
        return self.back()


def _seen(actor: Actor) -> QuerySet[Credential]:
    return Credential.objects.visible_to(actor).select_related("identity", "user").defer("digest")


URLS = [
    path("bulk/revoke/", BulkRevoke.as_view(), name="nhi_credential_bulk_revoke"),
    path("<uuid:pk>/revoke/", RevokePersonal.as_view(), name="nhi_credential_revoke"),
]
