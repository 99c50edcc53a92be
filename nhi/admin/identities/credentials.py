"""Issuing, rotating and revoking the credentials of one identity. A token is shown once, on a page nobody keeps."""

from typing import Any

from django import forms
from django.conf import settings
from django.contrib import messages
from django.http import HttpResponse
from django.urls import path
from django.utils.functional import cached_property

from common.console.confirmation_dialogs import ApiExample, Effect, counted
from common.console.forms import Chips, ConsoleForm, ReasonField, WordsField
from common.console.pages import render_once
from common.errors import NotAllowed, NotFound
from nhi.access import rights
from nhi.admin.identities.hub import OfIdentity
from nhi.console.base import ActorDialog, FreshProofDialog
from nhi.credentials import credentials
from nhi.models import Credential

LIVES = (("30", "30 days"), ("90", "90 days"), ("180", "180 days"), ("366", "A year"))
OVERLAPS = (("0", "None"), ("3600", "1 hour"), ("86400", "24 hours"), ("604800", "7 days"))


class IssueForm(ConsoleForm):
    aliases = {"expires_in_days": "days", "allowed_networks": "networks"}

    days = forms.ChoiceField(label="Works for", choices=LIVES, initial="90", widget=Chips)
    networks = WordsField(
        required=False, label="Only from", help_text="Networks like 10.0.0.0/8, parted by commas. Empty: from anywhere."
    )


class RotateForm(ConsoleForm):
    aliases = {"overlap_seconds": "overlap"}

    overlap = forms.ChoiceField(
        label="The old one works on for", choices=OVERLAPS, initial="86400", widget=Chips,
        help_text="Both work in that time, so that nothing stops while you change it over.",
    )  # fmt: skip


class RevokeForm(ConsoleForm):
    reason = ReasonField("Leaked", "No longer needed", "Replaced", "Owner asked")


class Handling(OfIdentity, ActorDialog):
    """Whoever moves an identity also handles its credentials."""

    right = "nhi.issue_credential"

    def check(self) -> None:
        super().check()
        if self.actor.only_reads:
            raise NotAllowed("You may not handle credentials.")
        if not self.actor.may(self.right):
            rights.require_to_move(self.actor, self.identity)
        if self.right == credentials.ISSUE_RIGHT and (why_not := rights.why_not_issue(self.actor, self.identity)):
            raise NotAllowed(why_not)

    def back(self) -> str:
        return self.url("credentials")

    @cached_property
    def credential(self) -> Credential:
        own = Credential.objects.visible_to(self.actor).filter(identity=self.identity)
        found = own.select_related("identity").filter(pk=self.kwargs["credential"]).first()
        if found is None:
            raise NotFound
        return found

    def shown_once(self, issued: credentials.IssuedCredential) -> HttpResponse:
        """The page of the token: whoever keeps pages is told not to keep this one."""
        return render_once(
            self.request,
            "nhi/identity/token.html",
            title=f"The new credential of {self.identity.name}",
            identity=self.identity,
            issued=issued,
            curl=f'curl {settings.PUBLIC_URL}/api/nhi/me -H "Authorization: Bearer {issued.token}"',
            back=self.back(),
        )


class Issue(FreshProofDialog, Handling):
    form_class = IssueForm
    button = "Issue"

    def context(self) -> dict[str, Any]:
        return {"title": f"Issue a credential for {self.identity.name}"}

    def by_api(self) -> ApiExample:
        return ApiExample(self.api("credentials"), {"expires_in_days": 90, "allowed_networks": []})

    def act(self, form: ConsoleForm) -> HttpResponse:
        given = form.cleaned_data
        issued = credentials.issue(
            actor=self.actor, holder=self.identity, days=int(given["days"]), allowed_networks=given["networks"]
        )
        return self.shown_once(issued)


class Rotate(FreshProofDialog, Handling):
    form_class = RotateForm
    button = "Rotate"

    @property
    def lead(self) -> str:  # type: ignore[override]  # the id is known once there is a credential
        return f"A successor of …{self.credential.public_id[-4:]} is made now, with the same life and networks."

    def context(self) -> dict[str, Any]:
        return {"title": f"Rotate a credential of {self.identity.name}"}

    def by_api(self) -> ApiExample:
        return ApiExample(f"/api/nhi/credentials/{self.credential.pk}/rotate", {"overlap_seconds": 86400})

    def act(self, form: ConsoleForm) -> HttpResponse:
        overlap = int(form.cleaned_data["overlap"])
        return self.shown_once(credentials.rotate(actor=self.actor, credential=self.credential, overlap=overlap))


class Revoke(Handling):
    form_class = RevokeForm
    right = "nhi.revoke_credential"
    danger = True

    @property
    def button(self) -> str:  # type: ignore[override]  # the id is known once there is a credential
        return f"Revoke …{self.credential.public_id[-4:]}"

    def context(self) -> dict[str, Any]:
        return {"title": f"Revoke a credential of {self.identity.name}"}

    def effects(self) -> list[Effect]:
        left = Credential.objects.live().filter(identity=self.identity).exclude(pk=self.credential.pk).count()
        ends = counted("credentials", 1, "Ends this credential and every short-lived token made from it", "")
        none_left = Effect(
            "none_left", int(not left), f"{self.identity.name} has no other live credential: it cannot call any more"
        )
        return [ends, none_left]

    def by_api(self) -> ApiExample:
        return ApiExample(f"/api/nhi/credentials/{self.credential.pk}/revoke", {"reason": "…"})

    def act(self, form: ConsoleForm) -> str:
        credentials.revoke(actor=self.actor, credential=self.credential, reason=form.cleaned_data["reason"])
        messages.success(self.request, f"The credential …{self.credential.public_id[-4:]} was revoked.")
        return self.back()


URLS = [
    path("<uuid:pk>/credentials/issue/", Issue.as_view(), name="nhi_identity_issue"),
    path("<uuid:pk>/credentials/<uuid:credential>/rotate/", Rotate.as_view(), name="nhi_identity_rotate"),
    path("<uuid:pk>/credentials/<uuid:credential>/revoke/", Revoke.as_view(), name="nhi_identity_revoke"),
]
