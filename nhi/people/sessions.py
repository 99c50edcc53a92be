"""Lifetime of console sessions and the requirement of a recent proof of identity.

A session lasts eight hours at most, or half an hour without a request.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any
from urllib.parse import urlencode

from allauth.account.adapter import get_adapter
from allauth.account.authentication import get_authentication_records
from allauth.account.internal.flows.reauthentication import is_reauthentication_required
from django.conf import settings
from django.contrib.auth import REDIRECT_FIELD_NAME, SESSION_KEY
from django.contrib.sessions.backends.db import SessionStore
from django.http import HttpRequest
from django.shortcuts import redirect
from django.urls import reverse

from common.errors import NotAllowed
from nhi.models import User

ViewFunction = Callable[..., Any]

STARTED_KEY, LAST_REQUEST_KEY = "gatehouse_started", "gatehouse_seen"
#: The time of the last request is written at most this often, so that not every page costs a write.
WRITE_INTERVAL_SECONDS = 30
API_PATH = "/api/"
#: A proof of identity younger than this is not asked for again.
MAX_PROOF_AGE_SECONDS = 300


class ProofRequired(NotAllowed):
    """The last proof of identity in this session is too old for this operation."""

    code = "proof_required"


@dataclass(frozen=True)
class RemainingTime:
    """Whole seconds until the session expires: by idling without a request, and by its age."""

    idle: int
    absolute: int

    @property
    def expiry_message(self) -> str:
        if self.absolute <= 0:
            return f"Ended {settings.SESSION_COOKIE_AGE // 3600} hours after signing in"
        return f"Ended after {settings.SESSION_IDLE_SECONDS // 60} minutes without a request" if self.idle <= 0 else ""


def remaining_time(request: HttpRequest) -> RemainingTime:
    now = time.time()
    started, last_request = request.session.get(STARTED_KEY, now), request.session.get(LAST_REQUEST_KEY, now)
    return RemainingTime(
        int(last_request + settings.SESSION_IDLE_SECONDS - now), int(started + settings.SESSION_COOKIE_AGE - now)
    )


def touch(request: HttpRequest) -> None:
    now = time.time()
    request.session.setdefault(STARTED_KEY, now)
    if now - request.session.get(LAST_REQUEST_KEY, 0) > WRITE_INTERVAL_SECONDS:
        request.session[LAST_REQUEST_KEY] = now


def remove_expired() -> None:
    """Delete expired sessions from the database."""
    SessionStore.clear_expired()


def signed_in_person(request: HttpRequest) -> User:
    """Return the signed-in person. Only for pages that require sign-in."""
    assert isinstance(request.user, User)
    return request.user


def has_signed_in_person(request: HttpRequest) -> bool:
    """Return whether the request has a session with a person, without loading the person.

    In the API a token takes precedence over a session cookie. The console does not accept tokens.
    """
    if request.path.startswith(API_PATH) and "Authorization" in request.headers:
        return False
    return settings.SESSION_COOKIE_NAME in request.COOKIES and SESSION_KEY in request.session


def require_fresh_proof_first(view: ViewFunction) -> ViewFunction:
    """Ask for the password or a factor again if the last proof is old. Submitted data is lost in this case."""

    @wraps(view)
    def wrapped(request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        return_path = request.path if request.method == "GET" else reverse("mfa_index")
        url = reauthentication_url(request, return_path=return_path)
        return redirect(url) if url else view(request, *args, **kwargs)

    return wrapped


def reauthentication_url(request: HttpRequest, *, return_path: str) -> str:
    """Return the URL of the page that asks for the password or a factor again and then redirects to `return_path`.

    Return an empty string while the last proof is fresh. Raise `ProofRequired` for a person who has neither a password
    nor a factor: they must sign in again.
    """
    require_recent_sign_in(request)
    if not is_reauthentication_required(request, app="nhi"):
        return ""
    return f"{_reauthentication_page(signed_in_person(request))}?{urlencode({REDIRECT_FIELD_NAME: return_path})}"


def require_recent_sign_in(request: HttpRequest) -> None:
    """Require a fresh sign-in from a person with neither password nor factor: no page can ask them for a proof."""
    if not _reauthentication_page(signed_in_person(request)):
        require_fresh_proof(request, signed_in_person(request))


def has_fresh_proof(request: HttpRequest, user: User) -> bool:
    """Return whether the person gave a password, a factor or a sign-in in this session in the last five minutes."""
    records = get_authentication_records(request, user)
    return bool(records) and time.time() - records[-1]["at"] <= MAX_PROOF_AGE_SECONDS


def require_fresh_proof(request: HttpRequest, user: User) -> None:
    """Refuse without a fresh proof; the message says how to give one. For requests that cannot be redirected."""
    if has_fresh_proof(request, user):
        return
    page = _reauthentication_page(user)
    instruction = f"Confirm that it is you at {settings.PUBLIC_URL}{page}" if page else "Sign out and sign in again"
    raise ProofRequired(f"This needs a fresh proof of who you are. {instruction}, then repeat this within 5 minutes.")


def _reauthentication_page(user: User) -> str:
    """Return the path of the page that asks for the password or a factor, or "" for a person who has neither."""
    methods = get_adapter().get_reauthentication_methods(user)
    return str(methods[0]["url"]) if methods else ""
