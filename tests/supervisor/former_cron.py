"""How due times were computed before `cronsim`, kept to compare the two. Nothing else uses it.

Its rules for clock changes differ from those of today; away from clock changes both must agree.
"""

from bisect import bisect_left
from calendar import monthrange
from collections.abc import Iterator
from datetime import MAXYEAR, UTC, date, datetime, time, timedelta
from itertools import islice, product
from zoneinfo import ZoneInfo

MINUTE, DAY = timedelta(minutes=1), timedelta(days=1)
FIELDS = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))
LENGTHS = {month: monthrange(2024, month)[1] for month in range(1, 13)}


class BadCron(ValueError):
    pass


def parse(text: str) -> "Rule":
    return Rule(text)


def due_times(text: str, after: datetime, zone: ZoneInfo) -> Iterator[datetime]:
    rule = Rule(text)
    while True:
        after = rule.after(after, zone)
        yield after


class Rule:
    """Five fields of numbers."""

    def __init__(self, text: str) -> None:
        parts = text.split()
        self.minutes, self.hours, self.days, self.months, weekdays = (
            sorted({value for item in part.split(",") for value in self._item(item, low, high)})
            for part, (low, high) in zip(parts, FIELDS, strict=True)
        )
        self.weekdays = {weekday % 7 for weekday in weekdays}
        self.either = not any(parts[place].startswith("*") for place in (2, 4))
        if not self.either and min(self.days) > max(LENGTHS[month] for month in self.months):
            raise BadCron(text)
        self._times = [time(hour, minute) for hour, minute in product(self.hours, self.minutes)]

    def _item(self, item: str, low: int, high: int) -> range:
        span, slash, step = item.partition("/")
        if span != "*":
            first, dash, last = span.partition("-")
            low, high = int(first), int(last if dash else first)
        return range(low, high + 1, int(step) if slash else 1)

    def after(self, moment: datetime, zone: ZoneInfo) -> datetime:
        start = min(_wall(moment, zone), _wall(moment - DAY, zone) + DAY)
        result: datetime | None = None
        for wall in self._walls(start):
            if result and wall >= _wall(result, zone):
                return result
            due = wall.replace(tzinfo=zone, fold=0).astimezone(UTC)
            if due > moment and (result is None or due < result):
                result = due
        raise OverflowError

    def _walls(self, start: datetime) -> Iterator[datetime]:
        first = start.replace(second=0, microsecond=0) + MINUTE
        for day in self._dates(first.date()):
            at = bisect_left(self._times, first.time()) if day == first.date() else 0
            yield from (datetime.combine(day, moment) for moment in islice(self._times, at, None))

    def _dates(self, first: date) -> Iterator[date]:
        for year in range(first.year, MAXYEAR + 1):
            for month in self.months:
                if (year, month) >= (first.year, first.month):
                    days = (date(year, month, number) for number in range(1, monthrange(year, month)[1] + 1))
                    yield from (day for day in days if day >= first and self._matches(day))

    def _matches(self, day: date) -> bool:
        by_day, by_weekday = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        return by_day or by_weekday if self.either else by_day and by_weekday


def _wall(moment: datetime, zone: ZoneInfo) -> datetime:
    return moment.astimezone(zone).replace(tzinfo=None)
