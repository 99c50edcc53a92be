"""Views for second factors, built on allauth: asked for after the password, added and removed under Settings.

A view that adds, replaces or removes a factor writes its audit event in the same transaction, so that neither exists
without the other.
"""

from typing import Any

from allauth.mfa.base.views import AuthenticateView, IndexView, ReauthenticateView
from allauth.mfa.models import Authenticator
from allauth.mfa.recovery_codes.views import GenerateRecoveryCodesView, ViewRecoveryCodesView
from allauth.mfa.totp.views import ActivateTOTPView, DeactivateTOTPView
from allauth.mfa.webauthn.views import (
    AddWebAuthnView,
    EditWebAuthnView,
    LoginWebAuthnView,
    ReauthenticateWebAuthnView,
    RemoveWebAuthnView,
)
from allauth.socialaccount.models import SocialAccount
from django.conf import settings
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.urls import reverse_lazy
from django.utils import timezone

from common.console import pages
from nhi.audit import authentication_failures
from nhi.people import mfa, sessions, sign_in_notices
from nhi.web.mfa_forms import retry_after_seconds
from nhi.web.sso_views import connect_token

# Every class below extends a class of allauth, which has no types.


class MfaSignInView(AuthenticateView):
    """The second step of sign-in: the page that asks for a code or a passkey after the password."""

    def form_invalid(self, form: Any) -> HttpResponse:
        return add_retry_after(super().form_invalid(form), form)


class ConfirmByCodeView(ReauthenticateView):
    """The page that asks for a code to confirm a sensitive action."""

    def form_invalid(self, form: Any) -> HttpResponse:
        return add_retry_after(super().form_invalid(form), form)


class ConfirmByPasskeyView(ReauthenticateWebAuthnView):
    """The page that asks for a passkey to confirm a sensitive action."""


class SignInSettingsView(IndexView):
    """The page Settings > Sign-in. While a required factor is missing, it only offers to set one up."""

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        person = self.request.user
        forced = settings.REQUIRE_MFA and not mfa.has_factor(person)
        connected = list(SocialAccount.objects.filter(user=person)) if settings.OIDC else []
        extra = {"forced": forced, "oidc": settings.OIDC, "connected": connected, "title": "Sign-in"}
        extra["connect_token"] = connect_token(self.request)
        extra["notices"] = sign_in_notices.latest(user=person)
        return {**super().get_context_data(**kwargs), **extra}

    def render_to_response(self, context: dict[str, Any], **kwargs: Any) -> HttpResponse:
        if context["forced"]:
            return super().render_to_response(context, **kwargs)  # type: ignore[no-any-return]  # allauth has no types
        return pages.render(self.request, "nhi/account/sign_in.html", **context)


class RecentSignInMixin:
    """Requires a recent sign-in to add a first factor without a password: allauth requires no proof in this case."""

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        if request.user.is_authenticated:
            sessions.require_recent_sign_in(request)
        return super().dispatch(request, *args, **kwargs)  # type: ignore[misc]  # defined by the view class


class AddTotpView(RecentSignInMixin, ActivateTOTPView):
    """The page on which people set up an authenticator app."""

    def form_valid(self, form: Any) -> HttpResponse:
        with transaction.atomic():
            response: HttpResponse = super().form_valid(form)
            mfa.record_factor_added(user=self.request.user, kind=Authenticator.Type.TOTP)
        return response


class RemoveTotpView(DeactivateTOTPView):
    """The page on which people remove their authenticator app."""

    def form_valid(self, form: Any) -> HttpResponse:
        with transaction.atomic():
            response: HttpResponse = super().form_valid(form)
            mfa.record_factor_removed(user=self.request.user, kind=Authenticator.Type.TOTP)
        return response


class AddPasskeyView(RecentSignInMixin, AddWebAuthnView):
    """The page on which people add a passkey."""

    def form_valid(self, form: Any) -> HttpResponse:
        with transaction.atomic():
            response: HttpResponse = super().form_valid(form)
            mfa.record_factor_added(user=self.request.user, kind=Authenticator.Type.WEBAUTHN)
        return response


class RenamePasskeyView(EditWebAuthnView):
    """The page on which people rename a passkey. A new name is no audit event."""

    success_url = reverse_lazy("mfa_index")


class RemovePasskeyView(RemoveWebAuthnView):
    """The page on which people remove a passkey."""

    success_url = reverse_lazy("mfa_index")

    def form_valid(self, form: Any) -> HttpResponse:
        with transaction.atomic():
            response: HttpResponse = super().form_valid(form)
            mfa.record_factor_removed(user=self.request.user, kind=Authenticator.Type.WEBAUTHN)
        return response


class PasskeySignInView(LoginWebAuthnView):
    """Sign-in by passkey. Not throttled: a passkey cannot be guessed, and strangers can lock a person's name."""

    def form_invalid(self, form: Any) -> HttpResponse:
        authentication_failures.count_failure("passkey", "passkey_refused", timezone.now())
        response: HttpResponse = super().form_invalid(form)
        return response


class RecoveryCodesView(ViewRecoveryCodesView):
    """The page that shows people their unused recovery codes."""


class MakeRecoveryCodesView(GenerateRecoveryCodesView):
    """The page on which people make new recovery codes, which replace all earlier ones."""

    def form_valid(self, form: Any) -> HttpResponse:
        with transaction.atomic():
            response: HttpResponse = super().form_valid(form)
            mfa.record_recovery_codes_made(user=self.request.user)
        return response


def add_retry_after(response: HttpResponse, form: Any) -> HttpResponse:
    if seconds := retry_after_seconds(form):
        response.status_code = 429
        response["Retry-After"] = str(seconds)
    return response
