"""Signing in and out: the password's verdict, what is written down about it, and who may come in at all.

Whoever is refused hears one sentence, whether the name is unknown, the password wrong, the person deactivated or
without a console, and it takes as long.
"""

from typing import Any

from allauth.socialaccount.models import SocialAccount
from django.contrib.auth.hashers import make_password
from django.core.exceptions import ValidationError
from django.db import transaction

from common import context
from common.errors import GatehouseError
from nhi import actors
from nhi.actors import ANONYMOUS, SYSTEM, Actor
from nhi.audit import events
from nhi.models import User
from nhi.people import sign_in_throttle
from nhi.people.sign_in_throttle import ADDRESS_RULE, SignInAttempt

REFUSAL_MESSAGE = "This name and password do not open the console."


class SignInRefused(GatehouseError):
    """Wrong name, password or code, or nobody who may come in."""

    code = "sign_in_refused"


def may_use_console(user: User) -> bool:
    return user.is_active and user.is_staff


def authenticate_by_password(*, username: str, password: str) -> User:
    """The person behind a name and a password. Raises `Limited` before any hash, `SignInRefused` after one."""
    attempt = sign_in_throttle.admit(username=username, source=context.current().source)
    user = _find_person(username)
    if _password_fits(user, password) and user is not None and may_use_console(user):
        sign_in_throttle.count_pass(attempt)
        return user
    record_failure(attempt, username=username, user=user, step="password")
    raise SignInRefused(REFUSAL_MESSAGE)


def confirm_password(*, user: User, password: str) -> None:
    """The same for someone who is signed in: a stolen session must not be a place to guess from."""
    attempt = sign_in_throttle.admit(username=user.username, source=context.current().source)
    if user.check_password(password):
        sign_in_throttle.count_pass(attempt)
        return
    record_failure(attempt, username=user.username, user=user, step="confirmation")
    raise SignInRefused("This is not your password.")


def record_failure(attempt: SignInAttempt, *, username: str, user: User | None, step: str) -> None:
    """Count and record one failure, and the locks that it began."""
    with transaction.atomic():
        begun = sign_in_throttle.count_failure(attempt)
        _write_event("sign_in.failed", ANONYMOUS, username, user, step=step)
        for lock in begun:
            name = context.current().source if lock.rule is ADDRESS_RULE else username
            _write_event("sign_in.locked", SYSTEM, name, user, locked=lock.rule.name, until=lock.until.isoformat())


def record_missing_console(*, user: User, how: str) -> None:
    """Known, and proven to be who they say, but without a console."""
    events.write("sign_in.failed", actor=ANONYMOUS, subject=user, details={"step": "console", "with": how})


def record_success(*, user: User, how: list[str]) -> None:
    with transaction.atomic():
        sign_in_throttle.reset_counters(username=user.username, source=context.current().source)
        events.write("sign_in.succeeded", actor=actors.person(user), subject=user, details={"with": how})


def record_sign_out(*, user: User, why: str = "") -> None:
    events.write("sign_out", actor=actors.person(user), subject=user, reason=why)


def record_sso_connected(*, user: User) -> None:
    events.write("sign_in.connected", actor=actors.person(user), subject=user)


def disconnect_sso(*, user: User, account: SocialAccount) -> None:
    """Part an outside account from its person."""
    with transaction.atomic():
        account.delete()
        events.write("sign_in.disconnected", actor=actors.person(user), subject=user)


def unlock(*, actor: Actor, username: str) -> int:
    """Let a name be tried again at once, from everywhere. Returns how many counters were cleared."""
    actor.require("nhi.change_user", "unlock other people's sign-in")
    with transaction.atomic():
        cleared = sign_in_throttle.unlock(username=username)
        _write_event("sign_in.unlocked", actor, username, _find_person(username), counters=cleared)
    return cleared


def _write_event(event: str, actor: Actor, username: str, user: User | None, **details: Any) -> None:
    """About a name that was typed, whether or not somebody has it."""
    subject_id = user.pk if user else None
    events.write(event, actor=actor, subject_kind="user", subject_id=subject_id, subject_name=username, details=details)


def _find_person(username: str) -> User | None:
    try:
        User.username_validator(username)
    except ValidationError:
        return None
    found: User | None = User.objects.filter(username=username).first()
    return found


def _password_fits(user: User | None, password: str) -> bool:
    if user is None:
        # As long as for a person: the clock must not tell who exists.
        make_password(password)
        return False
    return user.check_password(password)
