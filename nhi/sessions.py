"""How long a console session lasts: eight hours at most, half an hour without anything done; and who proves it anew."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any
from urllib.parse import urlencode

from allauth.account.adapter import get_adapter
from allauth.account.internal.flows.reauthentication import is_reauthentication_required
from django.conf import settings
from django.contrib.auth import REDIRECT_FIELD_NAME, SESSION_KEY
from django.contrib.sessions.backends.db import SessionStore
from django.http import HttpRequest
from django.shortcuts import redirect
from django.urls import reverse

from nhi.models import User

Answer = Callable[..., Any]

STARTED, SEEN = "gatehouse_started", "gatehouse_seen"
#: The time of the last request is written no more often than this: a page must not cost a write each.
STEP = 30
API = "/api/"


@dataclass(frozen=True)
class Left:
    """Whole seconds until the session ends by itself."""

    idle: int
    absolute: int

    @property
    def over(self) -> str:
        if self.absolute <= 0:
            return f"Ended {settings.SESSION_COOKIE_AGE // 3600} hours after signing in"
        return f"Ended after {settings.SESSION_IDLE_SECONDS // 60} minutes without a request" if self.idle <= 0 else ""


def left(request: HttpRequest) -> Left:
    now = time.time()
    started, seen = request.session.get(STARTED, now), request.session.get(SEEN, now)
    return Left(int(seen + settings.SESSION_IDLE_SECONDS - now), int(started + settings.SESSION_COOKIE_AGE - now))


def touch(request: HttpRequest) -> None:
    now = time.time()
    request.session.setdefault(STARTED, now)
    if now - request.session.get(SEEN, 0) > STEP:
        request.session[SEEN] = now


def forget() -> None:
    """Remove the rows of sessions that are over."""
    SessionStore.clear_expired()


def person(request: HttpRequest) -> User:
    """Who is signed in, on a page that asks for it."""
    assert isinstance(request.user, User)
    return request.user


def has_person(request: HttpRequest) -> bool:
    """Whether there is a session with somebody in it, without asking the database who.

    At the API a token speaks for itself, whatever cookie comes with it; the console knows no tokens.
    """
    if request.path.startswith(API) and "Authorization" in request.headers:
        return False
    return settings.SESSION_COOKIE_NAME in request.COOKIES and SESSION_KEY in request.session


def freshly_proven(view: Answer) -> Answer:
    """Ask for the password or a factor again when the last proof is old. What was sent is not kept meanwhile."""

    @wraps(view)
    def wrapped(request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        back = request.path if request.method == "GET" else reverse("mfa_index")
        way = way_to_prove(request, back=back)
        return redirect(way) if way else view(request, *args, **kwargs)

    return wrapped


def way_to_prove(request: HttpRequest, *, back: str) -> str:
    """Where the password or a factor is asked for again, and then leads `back`; empty while the last proof is fresh."""
    if not is_reauthentication_required(request, app="nhi"):
        return ""
    way = get_adapter().get_reauthentication_methods(request.user)[0]["url"]
    return f"{way}?{urlencode({REDIRECT_FIELD_NAME: back})}"
