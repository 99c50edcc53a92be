"""When a schedule is due: a cron rule, read by the clock of a time zone. Pure.

`cronsim` finds the times that match a rule on a clock that never changes. This module checks the rule, with an error
message for each mistake, and decides what a clock change means:

- A rule whose hour field is `*` goes by real time. It is due whenever the clock shows a time that matches: twice if
  the time is repeated, never if the time is left out.
- Any other rule is due once for each local time that matches. A repeated time is due at its first occurrence. A time
  that is left out is due at the first moment after the gap, together with all others that the gap left out.
"""

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from functools import cache
from typing import cast
from zoneinfo import ZoneInfo, available_timezones

from cronsim import CronSim, CronSimError

from supervisor.schedules import cron_words

LONGEST = 200
SECOND, DAY = timedelta(seconds=1), timedelta(days=1)
NAMED = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
#: Names in the zone database that are no places: the setting of this machine, and the placeholder for no setting.
NO_PLACES = frozenset({"localtime", "Factory"})
#: A start for rules that are only checked or described.
ANY_TIME = datetime(2024, 1, 1, tzinfo=UTC)


class BadCron(ValueError):
    """The text is no cron rule: which field, why, and what to write instead."""


class BadZone(ValueError):
    """There is no such zone."""


@dataclass(frozen=True)
class Field:
    """One of the five fields. Its grammar is narrower than that of cronsim, which also reads `L`, `#` and `5/15`."""

    name: str
    low: int
    high: int
    names: tuple[str, ...] = ()

    def normalize(self, text: str) -> str:
        """Return the field in numbers, as cronsim reads it."""
        return ",".join(self._item(item) for item in text.split(","))

    def _item(self, item: str) -> str:
        span, slash, step = item.partition("/")
        low, high = self._span(span)
        if slash:
            if not _is_number(step) or not 1 <= int(step) <= self.high:
                raise self._error(item, f"has no step; use 1 to {self.high} after the slash.")
            if span != "*" and "-" not in span:
                # Some programs read it as a range to the end, others as the one value.
                raise self._error(item, f"has a step without a range; write {span}-{self.high}/{int(step)}.")
        if span == "*":
            return f"*/{int(step)}" if slash else "*"
        if low == high:
            # cronsim reads 5-5/15 as 5-59/15.
            return str(low)
        return f"{low}-{high}/{int(step)}" if slash else f"{low}-{high}"

    def _span(self, span: str) -> tuple[int, int]:
        if span == "*":
            return self.low, self.high
        first, dash, last = span.partition("-")
        low = self._value(first)
        high = self._value(last) if dash else low
        if high < low and last.upper() == "SUN":
            # A week may end with Sunday as well as begin with it.
            high = self.high
        if high < low:
            raise self._error(span, f"runs backwards; write {low}-{self.high},{self.low}-{high}.")
        return low, high

    def _value(self, text: str) -> int:
        if text.upper() in self.names:
            return self.low + self.names.index(text.upper())
        if not _is_number(text):
            raise self._error(text, f"is not known; use {self._choice()}.")
        if not self.low <= int(text) <= self.high:
            raise self._error(text, f"is out of range; use {self._choice()}.")
        return int(text)

    def _choice(self) -> str:
        named = f" or {self.names[0]} to {self.names[-1]}" if self.names else ""
        return f"{self.low} to {self.high}{named}"

    def _error(self, text: str, why: str) -> BadCron:
        return BadCron(f"{self.name.capitalize()}: {text[:20]!r} {why}")


FIELDS = (
    Field("minute", 0, 59),
    Field("hour", 0, 23),
    Field("day of month", 1, 31),
    Field("month", 1, 12, ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")),
    # Sunday is 0 and 7.
    Field("day of week", 0, 7, ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")),
)
ORDER = ", ".join(field.name for field in FIELDS)


@dataclass(frozen=True)
class Cron:
    #: The rule as it was written, with single spaces.
    text: str
    #: The same in five fields of numbers.
    rule: str
    #: The hour field is `*`.
    real_time: bool

    @classmethod
    def parse(cls, text: str) -> "Cron":
        parts = _split(text)
        rule = " ".join(field.normalize(part) for field, part in zip(FIELDS, parts, strict=True))
        try:
            CronSim(rule, ANY_TIME)
        except CronSimError as error:
            day = parts[2][:20]
            raise BadCron(
                f"Day of month: no month of this schedule has a day {day}; choose another day or month."
            ) from error
        return cls(text=" ".join(text.split()), rule=rule, real_time=parts[1] == "*")

    def after(self, moment: datetime, zone: ZoneInfo) -> datetime:
        """Return the first due time later than `moment`, in UTC."""
        find = self._next_in_real_time if self.real_time else self._next_by_local_time
        try:
            if due := find(moment, zone):
                return due
        except OverflowError:
            pass
        raise OverflowError("The calendar ends before this schedule is due again.")

    def between(self, after: datetime, until: datetime, zone: ZoneInfo) -> Iterator[datetime]:
        """Yield every due time later than `after` and not later than `until`."""
        due = self.after(after, zone)
        while due <= until:
            yield due
            due = self.after(due, zone)

    def words(self) -> str:
        """Return the rule as a sentence part: `at 09:00 on Monday to Friday`."""
        fields = CronSim(self.rule, ANY_TIME)
        return cron_words.spoken(
            minutes=sorted(fields.minutes),
            hours=sorted(fields.hours),
            days=sorted(fields.days),
            months=sorted(fields.months),
            weekdays=sorted({day % 7 for day in cast("set[int]", fields.weekdays)}),
            either=not fields.day_and,
        )

    def _next_by_local_time(self, moment: datetime, zone: ZoneInfo) -> datetime | None:
        # A later local time has no earlier due time, so a search from what the clock shows now misses nothing.
        due_times = (_first_moment(wall, zone) for wall in CronSim(self.rule, _wall(moment, zone)))
        return next((due for due in due_times if due > moment), None)

    def _next_in_real_time(self, moment: datetime, zone: ZoneInfo) -> datetime | None:
        # A clock that is set back within a day shows times again that are earlier than what it shows now.
        start = min(_wall(moment, zone), _wall(moment + DAY, zone) - DAY)
        repeated: datetime | None = None
        for wall in CronSim(self.rule, start):
            moments = _moments(wall, zone)
            if moments and moments[0] > moment:
                # The clock shows every further local time later than this one, for the first time as well as again.
                return min(moments[0], repeated or moments[0])
            if moments and moments[-1] > moment and repeated is None:
                repeated = moments[-1]
        return repeated


def zone(name: str) -> ZoneInfo:
    # By the list of names alone, so that no name becomes a path.
    if name not in _zones():
        raise BadZone(f"{name[:60]!r} is no time zone; choose one like Europe/Vienna or UTC.")
    return ZoneInfo(name)


def is_unusual(moment: datetime, zone: ZoneInfo) -> bool:
    """Whether the clock changes on the local day of `moment`."""
    midnight = datetime.combine(_wall(moment, zone), time())
    return _first_moment(midnight + DAY, zone) - _first_moment(midnight, zone) != DAY


def _split(text: str) -> list[str]:
    if len(text) > LONGEST:
        raise BadCron(f"This has {len(text)} characters; use at most {LONGEST}.")
    parts = text.split()
    if parts and parts[0].startswith("@"):
        name = " ".join(parts)
        if name.lower() not in NAMED:
            raise BadCron(f"{name[:20]!r} is not known; use {', '.join(NAMED)}, or five fields.")
        return NAMED[name.lower()].split()
    if len(parts) != len(FIELDS):
        raise BadCron(f"Expected {len(FIELDS)} fields, got {len(parts) or 'none'}; write {ORDER}.")
    return parts


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()


# ── Local times and moments ───────────────────────────────────────────────────────────────────────────────────────
def _wall(moment: datetime, zone: ZoneInfo) -> datetime:
    """Return what the clock shows at `moment`."""
    return moment.astimezone(zone).replace(tzinfo=None)


def _moments(wall: datetime, zone: ZoneInfo) -> list[datetime]:
    """Return the moments at which the clock shows `wall`: one, two, or none where it leaves `wall` out."""
    moments = sorted({_read(wall, zone, fold) for fold in (0, 1)})
    return [moment for moment in moments if _wall(moment, zone) == wall]


def _first_moment(wall: datetime, zone: ZoneInfo) -> datetime:
    """Return the first moment at which the clock shows `wall`; where it leaves `wall` out, the end of that gap."""
    if moments := _moments(wall, zone):
        return moments[0]
    # Read with the offset of after the change, `wall` is before the change; read with that of before, it is not.
    before, after = _read(wall, zone, 1), _read(wall, zone, 0)
    seconds = range(round((after - before) / SECOND))
    return before + SECOND * bisect_left(seconds, wall, key=lambda second: _wall(before + SECOND * second, zone))


def _read(wall: datetime, zone: ZoneInfo, fold: int) -> datetime:
    return wall.replace(tzinfo=zone, fold=fold).astimezone(UTC)


@cache
def _zones() -> frozenset[str]:
    return frozenset(available_timezones() - NO_PLACES)
