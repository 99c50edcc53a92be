"""What signs beside a secret, and until when: the one before it, or another's whose URLs it took over."""

from collections.abc import Iterable
from typing import Any

from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString

from a2a.models import WebhookSecret
from a2a.webhooks import TAKEN_OVER
from common.console import times
from common.console.lists import Column
from common.templatetags.console import outside
from nhi.models import AuditEvent

BEFORE, ANOTHER = "the one before", "another secret"


def signs_alone(secret: WebhookSecret) -> bool:
    until = secret.previous_valid_until
    return until is None or until <= timezone.now()


def note(rows: Iterable[Any]) -> None:
    """From which each took URLs over, as the record of its making says, by one query whatever their number."""
    # One that was rotated has one of its own before it.
    young = {row.pk: row for row in rows if row.rotated_at is None and not signs_alone(row)}
    if not young:
        return
    made = AuditEvent.objects.filter(subject_id__in=young, event="webhook_secret.made")
    for pk, details in made.values_list("subject_id", "details"):
        young[pk].taken_over = details.get(TAKEN_OVER)


def which(row: Any) -> SafeString:
    if row.rotated_at is not None:
        return SafeString(BEFORE)
    prefix = getattr(row, "taken_over", None)
    if prefix is None:
        return SafeString(ANOTHER)
    return format_html("the one for {}", outside(prefix, 120)) if prefix else SafeString("the one for any URL")


def revoking(row: WebhookSecret) -> str:
    """The verb that ends it here: another's goes on for its own URLs."""
    return "Revoke the one before" if row.rotated_at is not None else "Let it sign alone"


def _cell(row: Any) -> SafeString:
    if signs_alone(row):
        return SafeString('<span class="gh-subtle">nothing</span>')
    return format_html("{}, until {}", which(row), times.absolute(row.previous_valid_until, timezone.now()))


def _text(row: Any) -> str:
    return "" if signs_alone(row) else row.previous_valid_until.isoformat()


COLUMN = Column("Signs too", _cell, _text)
