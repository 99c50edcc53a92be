"""Views for single sign-on: redirect to the provider, its callback, connect and disconnect an account."""

from allauth.account.adapter import get_adapter as get_account_adapter
from allauth.account.internal.flows.reauthentication import raise_if_reauthentication_required
from allauth.socialaccount.adapter import get_adapter
from allauth.socialaccount.internal.flows.connect import validate_disconnect
from allauth.socialaccount.models import SocialAccount
from allauth.socialaccount.providers.base import AuthProcess
from allauth.socialaccount.providers.oauth2.client import OAuth2Error
from allauth.socialaccount.providers.openid_connect import views
from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import ValidationError
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.utils import timezone
from django.views.decorators.http import require_GET, require_POST
from requests import RequestException

from common import crypto
from nhi.audit import authentication_failures
from nhi.people import sessions, sign_in
from nhi.people.sessions import require_fresh_proof_first
from nhi.web import error_responses
from nhi.web.sign_in_views import safe_next_path

#: Exceptions of allauth for a provider that is unreachable or does not speak OpenID Connect.
PROVIDER_ERRORS = (RequestException, OAuth2Error, KeyError, ValueError)
NO_ANSWER_MESSAGE = (
    "The single sign-on provider gave no answer that we can use. Try again, or sign in with your password."
)


@require_GET
def start(request: HttpRequest, provider_id: str) -> HttpResponse:
    """Redirect the browser to the provider.

    This is a link and not a form, because browsers check every redirect after a form against `form-action`, and the
    redirects of a provider are unknown. The request changes nothing; state and PKCE bind the response to this browser.
    """
    _require_configured(provider_id)
    process = AuthProcess.LOGIN
    if request.user.is_authenticated and request.GET.get("process") == AuthProcess.CONNECT:
        if not crypto.is_equal_in_constant_time(connect_token(request).encode(), request.GET.get("token", "").encode()):
            return error_responses.csrf_failure(request)
        raise_if_reauthentication_required(request, app="allauth.socialaccount")
        process = AuthProcess.CONNECT
    provider = get_adapter().get_provider(request, provider_id)
    try:
        response: HttpResponse = provider.redirect(request, process, next_url=safe_next_path(request) or None)
    except PROVIDER_ERRORS:
        return render_sso_failure(request)
    return response


@require_GET
def callback(request: HttpRequest, provider_id: str) -> HttpResponse:
    _require_configured(provider_id)
    try:
        response: HttpResponse = views.callback(request, provider_id)
    except PROVIDER_ERRORS:
        return render_sso_failure(request)
    return response


@require_POST
@login_required
@require_fresh_proof_first
def disconnect(request: HttpRequest, pk: int) -> HttpResponse:
    account = get_object_or_404(SocialAccount, pk=pk, user=request.user)
    try:
        validate_disconnect(request, account)
    except ValidationError:
        messages.error(request, "You have no password, so single sign-on is your only way in. It stays.")
        return redirect("mfa_index")
    sign_in.disconnect_sso(user=sessions.signed_in_person(request), account=account)
    return redirect("mfa_index")


def cancelled(request: HttpRequest) -> HttpResponse:
    messages.info(request, "You stopped single sign-on. Nothing happened.")
    return redirect(settings.LOGIN_URL)


def render_sso_failure(request: HttpRequest) -> HttpResponse:
    authentication_failures.count_failure("single sign-on", "sso_failed", timezone.now())
    return error_responses.render_error(request, 502, NO_ANSWER_MESSAGE, reason="sso_failed")


def connect_token(request: HttpRequest) -> str:
    """Return the token for the link that connects an account. It is valid in this session only.

    Without the token, an attacker who signed this browser in at the provider with their own account could connect that
    account to the person's account by a link.
    """
    return crypto.sign("connect single sign-on", str(request.session.session_key).encode()).hex()


def _require_configured(provider_id: str) -> None:
    if settings.OIDC is None or provider_id != settings.OIDC.provider_id:
        raise Http404


def refuse_signup(request: HttpRequest) -> HttpResponse:
    """Replace allauth's signup page. It never needs to ask for a name, because `save_user` chooses one."""
    get_account_adapter().add_message(request, messages.ERROR, message=NO_ANSWER_MESSAGE)
    return redirect(settings.LOGIN_URL)
