"""How much of the hour of a grant between identities is used by tasks."""

from datetime import datetime, timedelta
from uuid import UUID

from django.db.models import Count, Min

from a2a.models import Task
from common.db import clock
from nhi.decisions.types import AccessMatch, ConditionResult

HOUR = timedelta(hours=1)


def left(match: AccessMatch) -> ConditionResult:
    """What a decision is told of it; exact for whoever holds the grant's row."""
    assert match.max_calls_per_hour is not None
    sent, _ = used(match.id)
    if sent < match.max_calls_per_hour:
        return ConditionResult(
            "budget", True, message=f"{sent} of {match.max_calls_per_hour} tasks of this hour are sent."
        )
    said = f"{sent} of {match.max_calls_per_hour} tasks were sent within the last hour."
    return ConditionResult("budget", False, "quota_exceeded", said)


def used(grant_id: UUID) -> tuple[int, datetime | None]:
    """How many tasks of the last sixty minutes, and when the first of them was sent."""
    lately = Task.objects.filter(grant_id=grant_id, created_at__gt=clock.database_now() - HOUR)
    found = lately.aggregate(used=Count("pk"), first=Min("created_at"))
    return found["used"], found["first"]
