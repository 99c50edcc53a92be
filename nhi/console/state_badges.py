"""Badges of identities, credentials and grants: they depend on more than one column."""

from datetime import datetime, timedelta

from django.utils import timezone

from common.console import badges, times
from common.console.badges import Badge
from nhi.choices import GrantState, State
from nhi.models import Credential, Identity
from nhi.models.credentials import TimeBoxed

CREDENTIAL_ENDS_SOON = timedelta(days=14)
GRANT_ENDS_SOON = timedelta(days=7)


def identity(row: Identity) -> Badge:
    past = row.expires_at is not None and row.expires_at <= timezone.now()
    if past and row.state == State.ACTIVE:
        return badges.find("nhi.State", "expired")
    return badges.find("nhi.State", row.state)


def credential(row: Credential) -> Badge:
    now = timezone.now()
    if row.overlaps and row.expires_at is not None:
        return _grant_badge("rotating").saying(f"Rotating, old ends {times.absolute(row.expires_at, now)}")
    return _time_boxed_badge(row, CREDENTIAL_ENDS_SOON, now)


def grant(row: TimeBoxed) -> Badge:
    return _time_boxed_badge(row, GRANT_ENDS_SOON, timezone.now())


def _time_boxed_badge(row: TimeBoxed, soon: timedelta, now: datetime) -> Badge:
    state = row.state_at(now)
    if state == GrantState.LIVE and row.expires_at is not None and row.expires_at <= now + soon:
        return _grant_badge("ends_soon").saying(f"Ends {times.relative(row.expires_at, now)}")
    return _grant_badge(state)


def _grant_badge(word: str) -> Badge:
    return badges.find("nhi.GrantState", word)
