"""The time that schedules go by: the database's clock, moved by SCHEDULE_CLOCK_SHIFT seconds.

The shift is for trials: it shows what a night of a clock change, or an outage, does to a schedule. Only schedules see
it; runs, ends of grants and the record go by the real time. In production it is 0.
"""

from datetime import datetime, timedelta

from django.conf import settings
from django.db.models.expressions import CombinedExpression
from django.db.models.functions import Now

from common.db import clock


def now() -> datetime:
    return clock.database_now() + _shift()


def ago(span: timedelta) -> CombinedExpression:
    """A moment so long before now, for a query that tells the time itself."""
    return Now() - (span - _shift())


def _shift() -> timedelta:
    return timedelta(seconds=settings.SCHEDULE_CLOCK_SHIFT)
