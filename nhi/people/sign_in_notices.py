"""Notices to a person about changes that others made to their sign-in.

They are shown at the next sign-in and listed under Sign-in.
"""

from django.db.models.functions import Now
from django.utils import timezone

from nhi.actors import Actor
from nhi.choices import NoticeKind
from nhi.models import SignInNotice, User

MAX_LISTED = 10
SENTENCES = {
    NoticeKind.PASSWORD_SET: "{by} set your password on {at}. Reason: {reason}",
    NoticeKind.FACTOR_RESET: "{by} removed your second factors and recovery codes on {at}. Reason: {reason}",
}


def add(*, actor: Actor, user: User, kind: NoticeKind, reason: str) -> SignInNotice:
    """Add a notice. Call this in the transaction of the change."""
    return SignInNotice.objects.create(
        user=user, kind=kind, by_id=actor.id, by_name=actor.name, reason=reason, at=timezone.now()
    )


def mark_all_seen(*, user: User) -> list[SignInNotice]:
    """Mark the person's unseen notices as seen and return them, oldest first."""
    rows = list(SignInNotice.objects.filter(user=user, seen_at=None).order_by("at", "id"))
    SignInNotice.objects.filter(pk__in=[row.pk for row in rows], seen_at=None).update(seen_at=Now())
    return rows


def latest(*, user: User) -> list[SignInNotice]:
    """Return the latest notices, seen or not, newest first."""
    return list(SignInNotice.objects.filter(user=user)[:MAX_LISTED])


def last_password_set(*, user: User) -> SignInNotice | None:
    """Return the notice that names who set the current password, or None if the person changed it since."""
    rows = SignInNotice.objects.filter(user=user, kind=NoticeKind.PASSWORD_SET)
    return rows.first() if user.must_change_password else None


def sentence(notice: SignInNotice, *, at: str) -> str:
    """Return the notice as a sentence: what was done, by whom, when and why."""
    return SENTENCES[NoticeKind(notice.kind)].format(by=notice.by_name, at=at, reason=notice.reason)
