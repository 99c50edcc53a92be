"""One's own pages: personal tokens, and how the console shows itself."""

import zoneinfo
from typing import Any

from django import forms
from django.conf import settings
from django.contrib import admin, messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import path, reverse
from django.utils.functional import cached_property

from common.console.confirmation_dialogs import Effect, counted
from common.console.forms import ConsoleForm, ReasonField
from common.console.navigation import AccountLink, add_account_links
from common.console.pages import Control, render_once
from common.errors import InvalidInput, NotAllowed, NotFound
from nhi.admin.identities.credentials import IssueForm
from nhi.console.base import ActorDialog, ActorPage, FreshProofDialog
from nhi.credentials import credentials
from nhi.models import Credential, User
from nhi.people import people, sessions

SHOWN = 50


class TokenForm(IssueForm):
    issues_credentials = forms.BooleanField(
        required=False,
        label="May issue and rotate credentials of identities",
        help_text="As you may yourself. Whoever finds the token can then make credentials that outlive it.",
    )


class RevokeForm(ConsoleForm):
    reason = ReasonField("No longer needed", "Leaked", "Replaced")


class ProfileForm(ConsoleForm):
    time_zone = forms.CharField(
        required=False,
        max_length=64,
        help_text="Like Europe/Vienna. Empty: your browser's.",
        widget=forms.TextInput(attrs={"list": "zones", "autocomplete": "off", "spellcheck": "false"}),
    )
    single_key_shortcuts = forms.BooleanField(
        required=False,
        label="Single letters work as shortcuts in lists",
        help_text="Press ? in the console to see them.",
    )


class Own:
    """What the pages of one's own account share."""

    request: HttpRequest

    @property
    def user(self) -> User:
        return sessions.signed_in_person(self.request)

    def back(self) -> str:
        return reverse("my_tokens")


class Tokens(Own, ActorPage):
    template = "nhi/account/tokens.html"
    title = "My tokens"

    def context(self) -> dict[str, Any]:
        own = list(Credential.objects.filter(user=self.user).defer("digest").order_by("-created_at")[:SHOWN])
        two_live = sum(token.state == "live" for token in own) >= credentials.MAX_LIVE
        blocked = "Two work already. Revoke one first." if two_live else ""
        issue = Control("Issue token", reverse("my_token_issue"), "key", blocked=blocked)
        handles = not self.actor.only_reads
        return {"title": self.title, "tokens": own, "handles": handles, "controls": [issue] if handles else []}


class Issue(Own, FreshProofDialog):
    form_class = TokenForm
    title = "Issue a personal token"
    lead = (
        "It can do what you can do, over REST, but for two things: it never issues or rotates personal tokens, "
        "and credentials of identities only when you tick it below."
    )
    button = "Issue token"

    def check(self) -> None:
        if self.actor.only_reads:
            raise NotAllowed("Auditors read everything and change nothing.")

    def act(self, form: ConsoleForm) -> HttpResponse:
        given = form.cleaned_data
        issued = credentials.issue(
            actor=self.actor,
            holder=self.user,
            days=int(given["days"]),
            allowed_networks=given["networks"],
            issues_credentials=given["issues_credentials"],
        )
        return render_once(
            self.request,
            "nhi/identity/token.html",
            title="Your new token",
            issued=issued,
            curl=f'curl {settings.PUBLIC_URL}/api/nhi/me -H "Authorization: Bearer {issued.token}"',
            back=self.back(),
        )


class Revoke(Own, ActorDialog):
    form_class = RevokeForm
    danger = True

    def check(self) -> None:
        if self.actor.only_reads:
            raise NotAllowed("Auditors read everything and change nothing.")
        assert self.token

    @cached_property
    def token(self) -> Credential:
        own = Credential.objects.filter(user=self.user).select_related("user")
        found: Credential | None = own.filter(pk=self.kwargs["pk"]).first()
        if found is None:
            raise NotFound
        return found

    @property
    def button(self) -> str:  # type: ignore[override]  # the id is known once there is a token
        return f"Revoke {self.token}"

    def context(self) -> dict[str, Any]:
        return {"title": f"Revoke your token {self.token}"}

    def effects(self) -> list[Effect]:
        return [counted("tokens", 1, "Ends this token at once: whatever uses it stops", "")]

    def act(self, form: ConsoleForm) -> str:
        credentials.revoke(actor=self.actor, credential=self.token, reason=form.cleaned_data["reason"])
        messages.success(self.request, f"The token {self.token} was revoked.")
        return self.back()


class Profile(Own, ActorPage):
    template = "nhi/account/profile.html"
    title = "Profile"

    def context(self) -> dict[str, Any]:
        return {
            "form": ProfileForm(initial=self._held()),
            "buttons": [("save", "Save")],
            "back": "/admin/",
            "zones": sorted(zoneinfo.available_timezones()),
        }

    def post(self, request: HttpRequest, **_kwargs: Any) -> HttpResponse:
        form = ProfileForm(request.POST)
        if not form.is_valid():
            return self.page(form=form, status=422)
        try:
            people.change_own_settings(actor=self.actor, user=self.user, **form.cleaned_data)
        except InvalidInput as error:
            form.refuse(error)
            return self.page(form=form, status=422)
        messages.success(request, "Saved.")
        return redirect("my_profile")

    def _held(self) -> dict[str, Any]:
        return {"time_zone": self.user.time_zone, "single_key_shortcuts": self.user.single_key_shortcuts}


add_account_links(
    AccountLink("Profile", "person", "my_profile"),
    AccountLink("Sign-in", "lock", "mfa_index"),
    AccountLink("My tokens", "vpn_key", "my_tokens"),
)
URLS = [
    path("tokens/", admin.site.admin_view(Tokens.as_view()), name="my_tokens"),
    path("tokens/issue/", admin.site.admin_view(Issue.as_view()), name="my_token_issue"),
    path("tokens/<uuid:pk>/revoke/", admin.site.admin_view(Revoke.as_view()), name="my_token_revoke"),
    path("profile/", admin.site.admin_view(Profile.as_view()), name="my_profile"),
]
