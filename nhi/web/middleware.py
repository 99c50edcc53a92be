"""Middleware of console requests: session end, own password, second factor, read-only auditors, error pages."""

from collections.abc import Callable
from contextlib import suppress

from django.conf import settings
from django.contrib import messages
from django.contrib.auth import logout
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse

from common.console.pages import PART
from common.errors import GatehouseError, RecordUnavailable
from nhi import actors
from nhi.audit import events
from nhi.models import User
from nhi.people import mfa, sessions, sign_in
from nhi.web import error_responses

GetResponse = Callable[[HttpRequest], HttpResponse]
CONSOLE_PATH = "/admin/"
#: Sign-in and sign-out, and a person's own factors, password and profile. Auditors may change these too.
OWN_ACCOUNT_PATHS = tuple(
    f"{CONSOLE_PATH}{page}/" for page in ("login", "logout", "session", "sign-in", "sso", "password_change", "profile")
)
#: The pages for choosing one's own password, with reauthentication.
PASSWORD_CHANGE_PATHS = tuple(
    f"{CONSOLE_PATH}{page}/"
    for page in (
        "login", "logout", "session", "password_change", "sign-in/confirm", "sign-in/reauthenticate",
        "sign-in/webauthn/reauthenticate",
    )
)  # fmt: skip
#: The pages for setting up a second factor.
FACTOR_SETUP_PATHS = tuple(f"{CONSOLE_PATH}{page}/" for page in ("login", "logout", "session", "sign-in"))
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
#: Requested on every keystroke, so not recorded as opened pages. Matched by URL, because a client can forge headers.
SEARCH_URL_NAMES = frozenset({"search"})
POLL_HEADER = "X-Console-Poll"


def end_expired_session(get_response: GetResponse) -> GetResponse:
    """End a session that is idle or old. Background requests of a page do not keep it alive."""

    def middleware(request: HttpRequest) -> HttpResponse:
        expiry_message = (
            sessions.remaining_time(request).expiry_message if sessions.has_signed_in_person(request) else ""
        )
        if expiry_message:
            _end_session(request, expiry_message)
        elif (
            sessions.has_signed_in_person(request)
            and POLL_HEADER not in request.headers
            and not _is_session_status_request(request)
        ):
            sessions.touch(request)
        response = get_response(request)
        return response if expiry_message else _explain_ended_session(request, response)

    return middleware


def _explain_ended_session(request: HttpRequest, response: HttpResponse) -> HttpResponse:
    """Add a message to the sign-in form if the session ended in the meantime."""
    redirects_to_sign_in = response.headers.get("Location", "").startswith(settings.LOGIN_URL)
    had_session = bool(request.COOKIES.get(settings.SESSION_COOKIE_NAME)) and not request.path.startswith(
        OWN_ACCOUNT_PATHS[:2]
    )
    if not (redirects_to_sign_in and had_session and request.session.is_empty()):
        return response
    messages.info(request, "Your session ended; nothing was changed. Sign in to go on.")
    # A script that follows the redirect would consume the message before the person sees it.
    return HttpResponse(status=401) if PART in request.headers else response


def require_own_password(get_response: GetResponse) -> GetResponse:
    """Make a person whose password was set by somebody else choose their own before anything else."""

    def middleware(request: HttpRequest) -> HttpResponse:
        if sessions.has_signed_in_person(request) and not request.path.startswith(
            (*PASSWORD_CHANGE_PATHS, settings.STATIC_URL)
        ):
            person = request.user
            if isinstance(person, User) and person.must_change_password:
                if request.path.startswith(CONSOLE_PATH):
                    return redirect(reverse("account_change_password"))
                text = f"Choose your own password first, at {settings.PUBLIC_URL}{reverse('account_change_password')}."
                return error_responses.render_error(request, 403, text, reason="password_change_required")
        return get_response(request)

    return middleware


def require_second_factor(get_response: GetResponse) -> GetResponse:
    """With REQUIRE_MFA, make a person without a second factor set one up before anything else."""

    def middleware(request: HttpRequest) -> HttpResponse:
        if (
            settings.REQUIRE_MFA
            and sessions.has_signed_in_person(request)
            and not request.path.startswith(FACTOR_SETUP_PATHS)
        ):
            person = request.user
            # The person's own password comes first: see `require_own_password`.
            if (
                isinstance(person, User)
                and person.must_change_password
                and request.path.startswith(PASSWORD_CHANGE_PATHS)
            ):
                return get_response(request)
            if (
                person.is_authenticated
                and not request.path.startswith(settings.STATIC_URL)
                and not mfa.has_factor(person)
            ):
                if request.path.startswith(CONSOLE_PATH):
                    return redirect(reverse("mfa_index"))
                text = f"Set up a second factor first, at {settings.PUBLIC_URL}{reverse('mfa_index')}."
                return error_responses.render_error(request, 403, text, reason="second_factor_required")
        return get_response(request)

    return middleware


def enforce_read_only_auditors(get_response: GetResponse) -> GetResponse:
    """Refuse changes by auditors in the console, and record each page that they open."""

    def middleware(request: HttpRequest) -> HttpResponse:
        if not (
            request.path.startswith(CONSOLE_PATH)
            and sessions.has_signed_in_person(request)
            and request.user.is_authenticated
        ):
            return get_response(request)
        actor = actors.person(request.user)
        if not actor.only_reads:
            return get_response(request)
        if request.method not in SAFE_METHODS and not request.path.startswith(OWN_ACCOUNT_PATHS):
            return error_responses.render_error(
                request, 403, "Auditors read everything and change nothing.", reason="read_only"
            )
        response = get_response(request)
        try:
            if _is_page(request, response):
                events.write_page_opened(request, actor=actor, title=_page_title(request, response))
        except RecordUnavailable as error:
            return error_responses.render_gatehouse_error(request, error)
        return response

    return middleware


class ErrorPageMiddleware:
    """Turns a `GatehouseError` that no page handled into a plain page with the right status."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.get_response(request)

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        return error_responses.render_gatehouse_error(request, error) if isinstance(error, GatehouseError) else None


def _end_session(request: HttpRequest, reason: str) -> None:
    person = request.user
    logout(request)
    messages.info(request, f"{reason}. Sign in again to go on.")
    # Record after the logout: a failed write must not keep a session alive.
    if isinstance(person, User):
        with suppress(RecordUnavailable):
            sign_in.record_sign_out(user=person, reason=reason)


def _is_session_status_request(request: HttpRequest) -> bool:
    return request.method == "GET" and request.path == reverse("session")


def _is_page(request: HttpRequest, response: HttpResponse) -> bool:
    html = response.headers.get("Content-Type", "").startswith("text/html")
    match = request.resolver_match
    is_search = match is not None and match.url_name in SEARCH_URL_NAMES
    return request.method == "GET" and response.status_code == 200 and html and not is_search


def _page_title(request: HttpRequest, response: HttpResponse) -> str:
    context = getattr(response, "context_data", None) or {}
    match = request.resolver_match
    return str(context.get("title") or (match.url_name if match else "") or "Page")
