"""Second factors: checks and spends codes, seals secrets, records changes."""

import time

from allauth.mfa import app_settings
from allauth.mfa.models import Authenticator
from allauth.mfa.totp.internal.auth import format_hotp_value, hotp_value
from django.db import transaction

from common import context, crypto
from nhi import actors
from nhi.audit import events
from nhi.models import User
from nhi.people import sign_in, sign_in_throttle
from nhi.people.sign_in import SignInRefused

FACTOR_TYPES = (Authenticator.Type.TOTP, Authenticator.Type.WEBAUTHN)
LAST_COUNTER = "last_counter"


def has_factor(user: User) -> bool:
    return bool(Authenticator.objects.filter(user=user, type__in=FACTOR_TYPES).exists())


def check_code(*, user: User, code: str) -> Authenticator:
    """Return the factor that the code matches, and spend the code: it is never accepted again."""
    attempt = sign_in_throttle.admit(username=user.username, source=context.current().source)
    factor = _spend_code(user, code.replace(" ", "").replace("-", ""))
    if factor is None:
        sign_in.record_failure(attempt, username=user.username, user=user, step="second factor")
        raise SignInRefused("This code is wrong, or it was used before.")
    sign_in_throttle.count_pass(attempt)
    return factor


def seal_secret(secret: str, *, owner: User) -> str:
    return crypto.seal(secret, place=_sealing_place(owner))


def unseal_secret(sealed: str, *, owner: User) -> str:
    """Open a sealed secret. This fails if the secret was copied to another person's row."""
    return crypto.unseal(sealed, place=_sealing_place(owner))


def record_factor_added(*, user: User, kind: str) -> None:
    events.write("person.second_factor_added", actor=actors.person(user), subject=user, after={"factor": kind})


def record_factor_removed(*, user: User, kind: str) -> None:
    events.write("person.second_factor_removed", actor=actors.person(user), subject=user, before={"factor": kind})


def record_recovery_codes_made(*, user: User) -> None:
    events.write("person.recovery_codes_made", actor=actors.person(user), subject=user)


@transaction.atomic
def _spend_code(user: User, code: str) -> Authenticator | None:
    code_factors = Authenticator.objects.select_for_update().filter(user=user).exclude(type=Authenticator.Type.WEBAUTHN)
    for factor in code_factors.order_by("pk"):
        spend = _spend_totp_code if factor.type == Authenticator.Type.TOTP else _spend_recovery_code
        if spend(factor, code):
            return factor
    return None


def _spend_totp_code(factor: Authenticator, code: str) -> bool:
    """RFC 6238, 5.2: allow one step of drift to either side, and no code twice. All processes share the counter."""
    secret = unseal_secret(factor.data["secret"], owner=factor.user)
    now = int(time.time()) // app_settings.TOTP_PERIOD
    drift = app_settings.TOTP_TOLERANCE
    for counter in range(max(now - drift, factor.data.get(LAST_COUNTER, 0) + 1), now + drift + 1):
        if crypto.is_equal_in_constant_time(format_hotp_value(hotp_value(secret, counter)).encode(), code.encode()):
            factor.data[LAST_COUNTER] = counter
            factor.save(update_fields=["data"])
            return True
    return False


def _spend_recovery_code(factor: Authenticator, code: str) -> bool:
    return bool(factor.wrap().validate_code(code))


def _sealing_place(owner: User) -> str:
    return f"mfa_authenticator/{owner.pk}/data"
