"""Which due times of a schedule have come, which of them nobody was there for, and which get a run. Pure.

A schedule that was not looked at for long is caught up with in rounds, so that none of them takes long. What a round
leaves is counted, too: whether a missed time is among the last ones depends on all that come after it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from itertools import islice
from zoneinfo import ZoneInfo

from supervisor.choices import MisfirePolicy
from supervisor.schedules.cron import Cron

#: What is later than this was missed.
GRACE = timedelta(seconds=30)
MOST_AT_ONCE = 500
#: How many runs a schedule may owe. Of more missed times only the last ones get a run.
MOST_OWED = 100
RUNS = {MisfirePolicy.SKIP: 0, MisfirePolicy.ONCE: 1, MisfirePolicy.ALL: MOST_OWED}


@dataclass(frozen=True)
class Due:
    at: datetime
    missed: bool
    #: Whether it is to have a run.
    runs: bool


@dataclass(frozen=True)
class Round:
    due: tuple[Due, ...]
    #: The first due time that is not in it; None when the calendar ends before there is one.
    next: datetime | None


def come(*, cron: Cron, zone: ZoneInfo, first: datetime, now: datetime, policy: str) -> Round:
    """Due times from `first`, which is one, up to `now`."""
    known = list(islice(_from(cron, zone, first, now), MOST_AT_ONCE + MOST_OWED))
    missed = sum(now - at > GRACE for at in known)
    most = RUNS[MisfirePolicy(policy)]
    taken = known[:MOST_AT_ONCE]
    due = tuple(
        Due(at, missed=number < missed, runs=number >= missed or missed - number <= most)
        for number, at in enumerate(taken)
    )
    return Round(due, known[MOST_AT_ONCE] if len(known) > MOST_AT_ONCE else after(cron, zone, taken[-1]))


def after(cron: Cron, zone: ZoneInfo, moment: datetime) -> datetime | None:
    try:
        return cron.after(moment, zone)
    except OverflowError:
        return None


def upcoming(cron: Cron, zone: ZoneInfo, moment: datetime, count: int) -> list[datetime]:
    """The next so many due times; fewer where the calendar ends."""
    times: list[datetime] = []
    while len(times) < count and (due := after(cron, zone, times[-1] if times else moment)):
        times.append(due)
    return times


#: Many schedules share few expressions.
parsed = lru_cache(maxsize=512)(Cron.parse)


def _from(cron: Cron, zone: ZoneInfo, first: datetime, now: datetime) -> Iterator[datetime]:
    due: datetime | None = first
    while due is not None and due <= now:
        yield due
        due = after(cron, zone, due)
