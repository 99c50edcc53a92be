"""When a callback that was not taken is tried again: ten attempts within three days, in the standard's rhythm."""

import math
import random
from datetime import UTC, timedelta
from email.utils import parsedate_to_datetime

from django.conf import settings
from django.utils import timezone

#: Seconds from each attempt to the next.
WAITS = (5, 300, 1800, 7200, 18000, 36000, 50400, 72000, 86400)
ATTEMPTS = len(WAITS) + 1
JITTER = 0.2
#: The longest that a receiver may ask for, in seconds.
LONGEST_ASKED = 86400.0


def wait(made: int, *, asked: float = 0.0) -> timedelta | None:
    """How long after `made` attempts, and never sooner than the receiver asked; None when that was the last."""
    if made >= ATTEMPTS:
        return None
    scaled = WAITS[made - 1] * settings.WEBHOOK_TIME_SCALE
    # So that what failed together does not come back together.
    own = scaled * random.uniform(1 - JITTER, 1 + JITTER)  # noqa: S311 - nobody gains by guessing it
    return timedelta(seconds=max(own, asked))


def asked_for(retry_after: str) -> float:
    """The seconds that a `Retry-After` header asks for: a number, or a date; 0 where it says neither."""
    try:
        seconds = float(retry_after)
    except ValueError:
        seconds = _until(retry_after)
    return min(max(seconds, 0.0), LONGEST_ASKED) if math.isfinite(seconds) else 0.0


def _until(date: str) -> float:
    try:
        moment = parsedate_to_datetime(date)
    except ValueError:
        return 0.0
    return ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - timezone.now()).total_seconds()
