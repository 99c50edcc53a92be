"""Checks a password and records sign-in, failure and sign-out.

Every refusal has the same message and takes the same time, whether the name is unknown, the password is wrong, or the
person is deactivated or has no console.
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
    """The name, password or code is wrong, or the person may not use the console."""

    code = "sign_in_refused"


def may_use_console(user: User) -> bool:
    return user.is_active and user.is_staff


def authenticate_by_password(*, username: str, password: str) -> User:
    """Return the person with this name and password. Raise `RateLimited` before any hash, `SignInRefused` after one."""
    attempt = sign_in_throttle.admit(username=username, source=context.current().source)
    user = _find_person(username)
    if _password_fits(user, password) and user is not None and may_use_console(user):
        sign_in_throttle.count_pass(attempt)
        return user
    record_failure(attempt, username=username, user=user, step="password")
    raise SignInRefused(REFUSAL_MESSAGE)


def confirm_password(*, user: User, password: str) -> None:
    """Check the password of a signed-in person. Throttled too: a stolen session must not allow guessing."""
    attempt = sign_in_throttle.admit(username=user.username, source=context.current().source)
    if user.check_password(password):
        sign_in_throttle.count_pass(attempt)
        return
    record_failure(attempt, username=user.username, user=user, step="confirmation")
    raise SignInRefused("This is not your password.")


def record_failure(attempt: SignInAttempt, *, username: str, user: User | None, step: str) -> None:
    """Count and record one failure and the locks that it started."""
    with transaction.atomic():
        new_locks = sign_in_throttle.count_failure(attempt)
        _write_event("sign_in.failed", ANONYMOUS, username, user, step=step)
        for lock in new_locks:
            name = context.current().source if lock.rule is ADDRESS_RULE else username
            _write_event("sign_in.locked", SYSTEM, name, user, locked=lock.rule.name, until=lock.until.isoformat())


def record_missing_console(*, user: User, methods: str) -> None:
    """Record that a person gave valid proof of identity but has no console role."""
    events.write("sign_in.failed", actor=ANONYMOUS, subject=user, details={"step": "console", "with": methods})


def record_success(*, user: User, methods: list[str]) -> None:
    with transaction.atomic():
        sign_in_throttle.reset_counters(username=user.username, source=context.current().source)
        events.write("sign_in.succeeded", actor=actors.person(user), subject=user, details={"with": methods})


def record_sign_out(*, user: User, reason: str = "") -> None:
    events.write("sign_out", actor=actors.person(user), subject=user, reason=reason)


def record_sso_connected(*, user: User) -> None:
    events.write("sign_in.connected", actor=actors.person(user), subject=user)


def disconnect_sso(*, user: User, account: SocialAccount) -> None:
    """Disconnect a single sign-on account from its person."""
    with transaction.atomic():
        account.delete()
        events.write("sign_in.disconnected", actor=actors.person(user), subject=user)


def unlock(*, actor: Actor, username: str) -> int:
    """Clear the locks of a name for all addresses. Return the number of counters that were cleared."""
    actor.require("nhi.change_user", "unlock other people's sign-in")
    with transaction.atomic():
        cleared = sign_in_throttle.unlock(username=username)
        _write_event("sign_in.unlocked", actor, username, _find_person(username), counters=cleared)
    return cleared


def _write_event(event: str, actor: Actor, username: str, user: User | None, **details: Any) -> None:
    """Write an event about a typed name, whether or not a person has it."""
    subject_id = user.pk if user else None
    events.write(event, actor=actor, subject_kind="user", subject_id=subject_id, subject_name=username, details=details)


def _find_person(username: str) -> User | None:
    try:
        User.username_validator(username)
    except ValidationError:
        return None
    user: User | None = User.objects.filter(username=username).first()
    return user


def _password_fits(user: User | None, password: str) -> bool:
    if user is None:
        # Hash anyway: the response time must not reveal whether the name exists.
        make_password(password)
        return False
    return user.check_password(password)
