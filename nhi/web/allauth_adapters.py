"""Adapters that connect django-allauth to our accounts, second factors and single sign-on."""

from typing import Any

from allauth.account.adapter import DefaultAccountAdapter
from allauth.account.authentication import get_authentication_records
from allauth.account.internal.flows.reauthentication import get_reauthentication_flows
from allauth.account.internal.stagekit import clear_login
from allauth.core import context
from allauth.mfa.adapter import DefaultMFAAdapter
from allauth.mfa.models import Authenticator
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter
from allauth.socialaccount.providers.base import AuthProcess
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.http import url_has_allowed_host_and_scheme

from common.console import times
from common.errors import Duplicate
from nhi.actors import SYSTEM
from nhi.audit import authentication_failures
from nhi.models import User
from nhi.people import mfa, people, sessions, sign_in, sign_in_notices
from nhi.web import error_responses


class AccountAdapter(DefaultAccountAdapter):  # type: ignore[misc]  # allauth has no types
    """allauth's account hooks: nobody can sign up, and only people with console access sign in."""

    def is_open_for_signup(self, request: HttpRequest) -> bool:
        return False

    def is_safe_url(self, url: str | None) -> bool:
        """Allow paths only, no URL with a host, not even an own one."""
        return bool(url) and str(url).startswith("/") and url_has_allowed_host_and_scheme(url, allowed_hosts=None)

    def pre_login(self, request: HttpRequest, user: User, **kwargs: Any) -> HttpResponse | None:
        if sign_in.may_use_console(user):
            return None
        methods = authentication_methods(request, user)
        clear_login(request)
        sign_in.record_missing_console(user=user, methods=", ".join(methods))
        return error_responses.render_no_console(request, user)

    def login(self, request: HttpRequest, user: User) -> None:
        methods = authentication_methods(request, user)
        sign_in.record_success(user=user, methods=methods)
        super().login(request, user)
        sessions.touch(request)
        for notice in sign_in_notices.mark_all_seen(user=user):
            at = times.absolute(notice.at, timezone.now())
            messages.warning(request, sign_in_notices.sentence(notice, at=at))

    def logout(self, request: HttpRequest) -> None:
        if request.user.is_authenticated:
            sign_in.record_sign_out(user=request.user)
        super().logout(request)

    def is_reauthentication_required(self, *, app: str, **_kwargs: Any) -> bool:
        """Accept a proof of up to five minutes; allauth asks again even a minute after sign-in."""
        request = context.request
        if not get_reauthentication_flows(request.user):
            return False
        return not sessions.has_fresh_proof(request, request.user)

    def add_message(
        self, request: HttpRequest, level: int, message_template: str | None = None, *args: Any, **kwargs: Any
    ) -> None:
        """Drop allauth's messages, except those with a literal text: our pages show their own."""
        if kwargs.get("message"):
            super().add_message(request, level, message_template, *args, **kwargs)


class FactorAdapter(DefaultMFAAdapter):  # type: ignore[misc]  # allauth has no types
    """allauth's hooks for second factors. It seals the secrets of factors before they are stored."""

    error_messages = {
        **DefaultMFAAdapter.error_messages,
        "incorrect_code": "This code is wrong. Check the clock of your phone and type the current one.",
    }

    def encrypt(self, text: str) -> str:
        return mfa.seal_secret(text, owner=_factor_owner())

    def decrypt(self, encrypted_text: str) -> str:
        return mfa.unseal_secret(encrypted_text, owner=_factor_owner())

    def get_totp_label(self, user: User) -> str:
        return user.username

    def generate_authenticator_name(self, user: User, type: Authenticator.Type) -> str:  # noqa: A002 - allauth's word
        passkey_count = Authenticator.objects.filter(user=user, type=type).count()
        return f"Passkey {passkey_count + 1}" if passkey_count else "Passkey"

    def get_public_key_credential_rp_entity(self) -> dict[str, str]:
        return {**super().get_public_key_credential_rp_entity(), "name": "Gatehouse"}


class SingleSignOnAdapter(DefaultSocialAccountAdapter):  # type: ignore[misc]  # allauth has no types
    """allauth's hooks for single sign-on."""

    def is_open_for_signup(self, request: HttpRequest, sociallogin: Any) -> bool:
        """A newcomer becomes a person without console roles. A security admin may give them roles."""
        return True

    def save_user(self, request: HttpRequest, sociallogin: Any, form: Any = None) -> User:
        email = sociallogin.user.email
        sociallogin.user = _create_person(sociallogin.user.username or email.partition("@")[0] or "sso", email)
        sociallogin.save(request)
        user: User = sociallogin.user
        return user

    def pre_social_login(self, request: HttpRequest, sociallogin: Any) -> None:
        connects = sociallogin.state.get("process") == AuthProcess.CONNECT
        if connects and request.user.is_authenticated and not sociallogin.is_existing:
            # Record the event first: an action that cannot be recorded is not done.
            sign_in.record_sso_connected(user=request.user)

    def on_authentication_error(self, request: HttpRequest, provider: Any, **kwargs: Any) -> None:
        authentication_failures.count_failure("single sign-on", "sso_failed", timezone.now())

    def get_connect_redirect_url(self, request: HttpRequest, socialaccount: Any) -> str:
        return reverse("mfa_index")

    def get_requests_session(self) -> Any:
        session = super().get_requests_session()
        # Ignore proxies and ~/.netrc of the environment.
        session.trust_env = False
        return session


def authentication_methods(request: HttpRequest, user: User) -> list[str]:
    """Return the methods of proof in this session: password, single sign-on, totp, recovery code, passkey."""
    labels = {"socialaccount": "single sign-on", "webauthn": "passkey", "recovery_codes": "recovery code"}
    records = get_authentication_records(request, user)
    methods = [record.get("type") if record["method"] == "mfa" else record["method"] for record in records]
    return [labels.get(method, method) for method in methods]


def _factor_owner() -> User:
    """Return the owner of the current factor: the person who is signing in, else the signed-in person."""
    request = context.request
    stage = getattr(request, "_login_stage", None)
    owner: User = stage.login.user if stage else request.user
    return owner


def _create_person(preferred_name: str, email: str) -> User:
    """Create a person. If the name is taken, append a number: a name never gives access to an existing account."""
    base = (
        "".join(character for character in preferred_name if character.isalnum() or character in "@.+-_")[:140] or "sso"
    )
    for number in range(1, 100):
        username = base if number == 1 else f"{base}-{number}"
        try:
            return people.create(actor=SYSTEM, username=username, email=email, password=None).user
        except Duplicate:
            continue
    raise Duplicate(f"There are too many people called {base}.")
