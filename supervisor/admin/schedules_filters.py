"""What the list of schedules can be narrowed by."""

from datetime import timedelta
from typing import Any

from django.db.models import QuerySet

from common.console.lists import Filter, choice_filter, text_filter
from supervisor.choices import FireState, MisfirePolicy, OverlapPolicy
from supervisor.models import Schedule, ScheduleFire
from supervisor.schedules import clock as schedule_clock

LATELY = timedelta(hours=24)
Rows = QuerySet[Any]


def by_missed(rows: Rows, _value: str) -> Rows:
    missed = ScheduleFire.objects.filter(state=FireState.MISSED, due_at__gt=schedule_clock.ago(LATELY))
    return rows.filter(pk__in=missed.values("schedule"))


def by_firing(rows: Rows, value: str) -> Rows:
    fires = Schedule.objects.active().values("pk")
    return rows.filter(pk__in=fires) if value == "yes" else rows.exclude(pk__in=fires)


FILTERS = (
    Filter("fires", "Fires", by_firing, lambda _request: [("yes", "Yes"), ("no", "No")]),
    Filter("missed", "Missed", by_missed, lambda _request: [("24h", "In the last 24 h")]),
    choice_filter("misfire", "If missed", "misfire_policy", MisfirePolicy.choices),
    choice_filter("overlap", "If still running", "overlap_policy", OverlapPolicy.choices),
    text_filter("agent", "Agent", "agent__name"),
)
