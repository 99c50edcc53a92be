"""Revoking from the list: several at once, and what a person signs requests with."""

from typing import Any

from django.contrib import messages
from django.http import HttpResponse
from django.urls import path
from django.utils.functional import cached_property

from common.admin import several
from common.admin.dialogs import Call, Effect, counted
from common.admin.forms import ConsoleForm
from common.admin.pages import link, render
from common.errors import NotAllowed, NotFound
from nhi import credentials
from nhi.admin.base import ActingDialog
from nhi.admin.identities_credentials import RevokeForm
from nhi.models import Credential


class Revoking(ActingDialog):
    form_class = RevokeForm
    danger = True

    def check(self) -> None:
        if self.actor.only_reads:
            raise NotAllowed("You may not revoke credentials.")

    def back(self) -> str:
        return link("nhi_credential_changelist")

    @cached_property
    def seen(self) -> Any:
        return Credential.objects.visible_to(self.actor).select_related("identity", "user").defer("digest")


class BulkRevoke(Revoking):
    """Works on what was ticked, can be seen and still works."""

    template = "nhi/identity/bulk.html"
    lead = "Each ends at once, with every short-lived token made from it. What has ended already is left alone."

    @cached_property
    def chosen(self) -> list[Credential]:
        return list(self.seen.filter(pk__in=several.ticked(self.request)).order_by("pk"))

    @cached_property
    def fitting(self) -> list[Credential]:
        return [one for one in self.chosen if one.state == "live"]

    @property
    def title(self) -> str:  # type: ignore[override]  # the number is known once there is a request
        return f"Revoke {len(self.fitting)} {'credential' if len(self.fitting) == 1 else 'credentials'}"

    @property
    def button(self) -> str:  # type: ignore[override]  # the same
        return self.title if self.fitting else ""

    @property
    def typed(self) -> str:  # type: ignore[override]  # the same
        return several.to_type(len(self.fitting))

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

    def context(self) -> dict[str, Any]:
        names = [f"{one.identity or one.user} {one}" for one in self.fitting]
        ended = [f"{one.identity or one.user} {one}: has ended" for one in self.chosen if one.state != "live"]
        return {
            "title": self.title,
            **several.named(names),
            "skipped": ended,
        }

    def act(self, form: ConsoleForm) -> HttpResponse:
        chosen = len(self.chosen)
        results = credentials.revoke_each(
            actor=self.actor, credentials=self.fitting, reason=form.cleaned_data["reason"]
        )
        done = sum(item.result == "done" for item in results)
        title = f"Revoke: {done} of {chosen} done"
        return render(self.request, "console/results.html", title=title, results=results, back=self.back())


class RevokePersonal(Revoking):
    """A token that a person made for themselves."""

    @cached_property
    def credential(self) -> Credential:
        found: Credential | None = self.seen.filter(pk=self.kwargs["pk"], user__isnull=False).first()
        if found is None:
            raise NotFound
        return found

    def check(self) -> None:
        super().check()
        if self.credential.user_id != self.actor.id:
            self.actor.require("nhi.change_user", "handle other people's tokens")

    @property
    def button(self) -> str:  # type: ignore[override]  # the id is known once there is a credential
        return f"Revoke {self.credential}"

    def context(self) -> dict[str, Any]:
        return {"title": f"Revoke a token of {self.credential.user}"}

    def by_api(self) -> Call:
        return Call(f"/api/nhi/credentials/{self.credential.pk}/revoke", {"reason": "…"})

    def effects(self) -> list[Effect]:
        return [counted("credentials", 1, "Ends this token at once", "")]

    def act(self, form: ConsoleForm) -> str:
        credentials.revoke(actor=self.actor, credential=self.credential, reason=form.cleaned_data["reason"])
        messages.success(self.request, f"The token {self.credential} was revoked.")
        return self.back()


URLS = [
    path("bulk/revoke/", BulkRevoke.as_view(), name="nhi_credential_bulk_revoke"),
    path("<uuid:pk>/revoke/", RevokePersonal.as_view(), name="nhi_credential_revoke"),
]
