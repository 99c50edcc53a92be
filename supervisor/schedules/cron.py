"""When a schedule is due: five fields read by the local clock of a zone. Pure.

The rule is about what the wall clock shows. A local time that a clock change leaves out fires once, the same distance
after the change; one that comes twice fires the first time only. So in the doubled hour nothing fires a second time,
and a rule for every few minutes rests for as long as the clock was set back.
"""

from bisect import bisect_left
from calendar import monthrange
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import MAXYEAR, UTC, date, datetime, time, timedelta
from functools import cache, cached_property
from itertools import islice, product
from zoneinfo import ZoneInfo, available_timezones

from supervisor.schedules import cron_words

LONGEST = 200
MINUTE, DAY = timedelta(minutes=1), timedelta(days=1)
NAMED = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
HINT = "Give five fields: minute, hour, day of month, month, day of week."
#: How many days a month has at most.
LENGTHS = {month: monthrange(2024, month)[1] for month in range(1, 13)}
#: Zones of the data that say nothing: what this machine happens to be set to, and what it is before anybody set it.
NO_PLACES = frozenset({"localtime", "Factory"})


class BadCron(ValueError):
    """It cannot be a schedule: which field, why, and what to write instead."""


class BadZone(ValueError):
    """There is no such zone."""


@dataclass(frozen=True)
class Field:
    name: str
    low: int
    high: int
    names: tuple[str, ...] = ()

    def values(self, text: str) -> frozenset[int]:
        return frozenset(value for item in text.split(",") for value in self._item(item))

    def _item(self, item: str) -> range:
        span, slash, step = item.partition("/")
        low, high = self._span(span)
        if not slash:
            return range(low, high + 1)
        if not _is_number(step) or not 1 <= int(step) <= self.high:
            raise self._refused(item, f"has no step; use 1 to {self.high} after the slash.")
        if span != "*" and "-" not in span:
            # Some read it as a range to the end, some as the one value.
            raise self._refused(item, f"has a step without a range; write {span}-{self.high}/{int(step)}.")
        return range(low, high + 1, int(step))

    def _span(self, span: str) -> tuple[int, int]:
        if span == "*":
            return self.low, self.high
        first, dash, last = span.partition("-")
        low = self._value(first)
        high = self._value(last) if dash else low
        if high < low and last.upper() == "SUN":
            # By its name it ends a week as well as it begins one.
            high = self.high
        if high < low:
            raise self._refused(span, f"runs backwards; write {low}-{self.high},{self.low}-{high}.")
        return low, high

    def _value(self, text: str) -> int:
        if text.upper() in self.names:
            return self.low + self.names.index(text.upper())
        if not _is_number(text):
            raise self._refused(text, f"is not known; use {self._choice()}.")
        if not self.low <= int(text) <= self.high:
            raise self._refused(text, f"is out of range; use {self._choice()}.")
        return int(text)

    def _choice(self) -> str:
        named = f" or {self.names[0]} to {self.names[-1]}" if self.names else ""
        return f"{self.low} to {self.high}{named}"

    def _refused(self, text: str, why: str) -> BadCron:
        return BadCron(f"{self.name.capitalize()}: {text[:20]!r} {why}")


FIELDS = (
    Field("minute", 0, 59),
    Field("hour", 0, 23),
    Field("day of month", 1, 31),
    Field("month", 1, 12, ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")),
    # Sunday is 0 and 7.
    Field("day of week", 0, 7, ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")),
)


@dataclass(frozen=True)
class Cron:
    #: As it was written, with single spaces.
    text: str
    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: tuple[int, ...]
    months: tuple[int, ...]
    #: From 0, which is Sunday.
    weekdays: tuple[int, ...]
    #: Both kinds of day are restricted, so that one of them is enough.
    either: bool

    @classmethod
    def parse(cls, text: str) -> "Cron":
        parts = _parts(text)
        minutes, hours, days, months, weekdays = (field.values(part) for field, part in zip(FIELDS, parts, strict=True))
        either = not any(parts[place].startswith("*") for place in (2, 4))
        if not either and min(days) > max(LENGTHS[month] for month in months):
            raise BadCron(
                f"Day of month: no month of this schedule has a day {min(days)}; choose another day or month."
            )
        return cls(
            text=" ".join(text.split()),
            minutes=tuple(sorted(minutes)),
            hours=tuple(sorted(hours)),
            days=tuple(sorted(days)),
            months=tuple(sorted(months)),
            weekdays=tuple(sorted({weekday % 7 for weekday in weekdays})),
            either=either,
        )

    def after(self, moment: datetime, zone: ZoneInfo) -> datetime:
        """The first due time later than `moment`, in UTC."""
        # Within a day of a clock that was set forward, times it left out may still be to come: look from where the
        # clock would stand without the change.
        start = min(_wall(moment, zone), _wall(moment - DAY, zone) + DAY)
        found: datetime | None = None
        for wall in self._walls(start):
            if found and wall >= _wall(found, zone):
                return found
            due = _instant(wall, zone)
            # A moved time may stand behind a later one that is real.
            if due > moment and (found is None or due < found):
                found = due
        raise OverflowError("The calendar ends before this schedule is due again.")

    def between(self, after: datetime, until: datetime, zone: ZoneInfo) -> Iterator[datetime]:
        """Every due time later than `after` and not later than `until`."""
        due = self.after(after, zone)
        while due <= until:
            yield due
            due = self.after(due, zone)

    def words(self) -> str:
        """For people: `at 09:00 on Monday to Friday`."""
        return cron_words.spoken(
            minutes=self.minutes,
            hours=self.hours,
            days=self.days,
            months=self.months,
            weekdays=self.weekdays,
            either=self.either,
        )

    def _walls(self, start: datetime) -> Iterator[datetime]:
        """What a wall clock shows, after `start`, whenever the fields match it."""
        first = start.replace(second=0, microsecond=0) + MINUTE
        for day in self._dates(first.date()):
            at = bisect_left(self._times, first.time()) if day == first.date() else 0
            yield from (datetime.combine(day, one) for one in islice(self._times, at, None))

    def _dates(self, first: date) -> Iterator[date]:
        for year in range(first.year, MAXYEAR + 1):
            for month in self.months:
                if (year, month) >= (first.year, first.month):
                    days = (date(year, month, number) for number in range(1, monthrange(year, month)[1] + 1))
                    yield from (day for day in days if day >= first and self._is_on(day))

    def _is_on(self, day: date) -> bool:
        by_day, by_weekday = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        return by_day or by_weekday if self.either else by_day and by_weekday

    @cached_property
    def _times(self) -> list[time]:
        return [time(hour, minute) for hour, minute in product(self.hours, self.minutes)]


def zone(name: str) -> ZoneInfo:
    # By the list of names alone, so that no name becomes a path.
    if name not in _zones():
        raise BadZone(f"{name[:60]!r} is no time zone; choose one like Europe/Vienna or UTC.")
    return ZoneInfo(name)


def is_unusual(moment: datetime, zone: ZoneInfo) -> bool:
    """Whether the clock changes on the local day of `moment`."""
    midnight = datetime.combine(_wall(moment, zone), time())
    return _instant(midnight + DAY, zone) - _instant(midnight, zone) != DAY


def _parts(text: str) -> list[str]:
    if len(text) > LONGEST:
        raise BadCron(f"This has {len(text)} characters; use at most {LONGEST}.")
    parts = text.split()
    if not parts:
        raise BadCron(f"This is empty. {HINT}")
    if parts[0].startswith("@"):
        name = " ".join(parts)
        if name.lower() not in NAMED:
            raise BadCron(f"{name[:20]!r} is not known; use {', '.join(NAMED)}, or five fields.")
        return NAMED[name.lower()].split()
    if len(parts) != len(FIELDS):
        raise BadCron(f"Not five fields but {len(parts)}. {HINT}")
    return parts


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()


def _wall(moment: datetime, zone: ZoneInfo) -> datetime:
    return moment.astimezone(zone).replace(tzinfo=None)


def _instant(wall: datetime, zone: ZoneInfo) -> datetime:
    """The first of two where the clock shows `wall` twice; counted from before the change where it never does."""
    return wall.replace(tzinfo=zone, fold=0).astimezone(UTC)


@cache
def _zones() -> frozenset[str]:
    return frozenset(available_timezones() - NO_PLACES)
