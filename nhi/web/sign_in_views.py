"""Views for sign-in, password confirmation, sign-out and the remaining time of the session."""

from typing import Any

from allauth.account.internal.flows.login import perform_password_login
from allauth.account.internal.flows.reauthentication import (
    reauthenticate_by_password,
    resume_request,
)
from allauth.account.models import Login
from allauth.account.utils import get_next_redirect_url
from django import forms
from django.conf import settings
from django.contrib.auth import logout as end_session
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.middleware.csrf import get_token
from django.shortcuts import redirect
from django.utils.decorators import method_decorator
from django.views import View
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods

from common.errors import GatehouseError, RateLimited
from nhi.people import sessions, sign_in
from nhi.web import error_responses


class SignInForm(forms.Form):
    """Asks for name and password. The view checks them."""

    username = forms.CharField(label="Name", max_length=1000, strip=True)
    password = forms.CharField(label="Password", max_length=4096, strip=False, widget=forms.PasswordInput)


class ConfirmPasswordForm(forms.Form):
    """Asks a person who is signed in for the password, to confirm a sensitive action."""

    password = forms.CharField(label="Password", max_length=4096, strip=False, widget=forms.PasswordInput)


@method_decorator(sensitive_post_parameters("password"), name="dispatch")
class SignInView(View):
    """The sign-in form. It works without scripts and does not reveal which names exist."""

    def get(self, request: HttpRequest) -> HttpResponse:
        if request.user.is_authenticated and sign_in.may_use_console(request.user):
            return redirect(safe_next_path(request) or settings.LOGIN_REDIRECT_URL)
        return self.page(SignInForm())

    def post(self, request: HttpRequest) -> HttpResponse:
        form = SignInForm(request.POST)
        if not form.is_valid():
            return self.page(form, status=400)
        try:
            user = sign_in.authenticate_by_password(**form.cleaned_data)
        except sign_in.SignInRefused as refusal:
            return self.page(form, refusal)
        except RateLimited as refusal:
            return self.page(form, refusal, status=429)
        login = Login(user=user, redirect_url=safe_next_path(request))
        response: HttpResponse = perform_password_login(request, {"username": user.username}, login)
        return response

    def page(self, form: SignInForm, refusal: GatehouseError | None = None, status: int = 200) -> HttpResponse:
        context: dict[str, Any] = {"form": form, "refusal": refusal, "next": safe_next_path(self.request)}
        context["sso"] = settings.OIDC.name if settings.OIDC else ""
        response = error_responses.render_page(self.request, "account/login.html", status=status, **context)
        return add_retry_after(response, refusal)


@method_decorator([login_required, sensitive_post_parameters("password")], name="dispatch")
class ConfirmPasswordView(View):
    """Asks for the password again before a change of a factor or of the password."""

    def get(self, request: HttpRequest) -> HttpResponse:
        return self.page(ConfirmPasswordForm())

    def post(self, request: HttpRequest) -> HttpResponse:
        form = ConfirmPasswordForm(request.POST)
        if not form.is_valid():
            return self.page(form, status=400)
        try:
            sign_in.confirm_password(user=sessions.signed_in_person(request), password=form.cleaned_data["password"])
        except sign_in.SignInRefused as refusal:
            return self.page(form, refusal)
        except RateLimited as refusal:
            return self.page(form, refusal, status=429)
        reauthenticate_by_password(request)
        return resume_request(request) or redirect("mfa_index")

    def page(self, form: ConfirmPasswordForm, refusal: GatehouseError | None = None, status: int = 200) -> HttpResponse:
        context: dict[str, Any] = {"form": form, "refusal": refusal, "next": safe_next_path(self.request)}
        return add_retry_after(
            error_responses.render_page(self.request, "account/reauthenticate.html", status=status, **context), refusal
        )


class SignOutView(View):
    """Signs out by POST only, so that a link cannot sign anyone out."""

    def get(self, request: HttpRequest) -> HttpResponse:
        if not request.user.is_authenticated:
            return redirect(settings.LOGIN_URL)
        return error_responses.render_page(request, "account/logout.html")

    def post(self, request: HttpRequest) -> HttpResponse:
        if request.user.is_authenticated:
            sign_in.record_sign_out(user=request.user)
        end_session(request)
        return redirect(settings.LOGOUT_REDIRECT_URL)


@require_http_methods(["GET", "POST"])
def session_status(request: HttpRequest) -> HttpResponse:
    """Return the remaining seconds of the session. A GET does not extend it; a POST, like any other page, does."""
    if not request.user.is_authenticated:
        return JsonResponse({"signed_in": False}, status=401)
    remaining = sessions.remaining_time(request)
    body = {
        "signed_in": True,
        "idle_seconds": remaining.idle,
        "seconds": remaining.absolute,
        "csrf_token": get_token(request),
    }
    return JsonResponse(body)


def safe_next_path(request: HttpRequest) -> str:
    """Return the `next` parameter if it is a path of this site, else an empty string."""
    return str(get_next_redirect_url(request) or "")


def add_retry_after(response: HttpResponse, refusal: GatehouseError | None) -> HttpResponse:
    if isinstance(refusal, RateLimited):
        response["Retry-After"] = str(refusal.retry_after)
    return response


def redirect_to_sign_in(request: HttpRequest) -> HttpResponseRedirect:
    """Replace pages of allauth that Gatehouse does not offer."""
    return redirect(settings.LOGIN_URL)
