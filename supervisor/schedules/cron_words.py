"""A cron rule as a person would say it: `every 15 minutes`, `at 02:30 every day`. Pure."""

from collections.abc import Callable, Sequence
from itertools import pairwise

MONTHS = (
    "", "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip
WEEKDAYS = ("", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
#: More times of day than this are told by their pattern.
MOST_TIMES = 4
#: More steps than this are told by their first three and their last.
MOST_STEPS = 4
Values = Sequence[int]


def spoken(*, minutes: Values, hours: Values, days: Values, months: Values, weekdays: Values, either: bool) -> str:
    """`weekdays` count from 0, which is Sunday; `either`: a day of the month or a day of the week is enough."""
    every_month = len(months) == 12
    when = _days(days, sorted(weekday or 7 for weekday in weekdays), either, "the month" if every_month else "")
    at = _times(minutes, hours)
    said = [at or _often(minutes, hours), when or ("every day" if at else "")]
    if not every_month:
        said.append(f"in {_listed(months, MONTHS.__getitem__)}")
    return " ".join(filter(None, said))


def _times(minutes: Values, hours: Values) -> str:
    if len(hours) == 24 or len(minutes) * len(hours) > MOST_TIMES:
        return ""
    return f"at {_and([_clock(hour, minute) for hour in hours for minute in minutes])}"


def _often(minutes: Values, hours: Values) -> str:
    if len(minutes) == 1:
        return _hourly(minutes[0], hours)
    step = _step(minutes)
    if step == 1 and len(minutes) == 60:
        pace = "every minute"
    elif minutes[0] == 0 and step * len(minutes) == 60:
        pace = f"every {step} minutes"
    else:
        return f"at minutes {_listed(minutes)} of {_hours(hours)}"
    if len(hours) == 24:
        return pace
    if len(hours) == 1 or _step(hours) == 1:
        return f"{pace} from {_clock(hours[0], minutes[0])} to {_clock(hours[-1], minutes[-1])}"
    return f"{pace} of {_hours(hours)}"


def _hourly(minute: int, hours: Values) -> str:
    step = _step(hours)
    if minute == hours[0] == 0 and step * len(hours) == 24:
        return "every hour" if step == 1 else f"every {step} hours"
    if len(hours) == 24 or not step:
        return f"at minute {minute} of {_hours(hours)}"
    pace = "every hour" if step == 1 else f"every {step} hours"
    return f"{pace} from {_clock(hours[0], minute)} to {_clock(hours[-1], minute)}"


def _hours(hours: Values) -> str:
    return "every hour" if len(hours) == 24 else f"hours {_listed(hours)}"


def _days(days: Values, weekdays: Values, either: bool, month: str) -> str:
    every_day, every_weekday = len(days) == 31, len(weekdays) == 7
    if (every_day and every_weekday) or (either and (every_day or every_weekday)):
        return ""
    of_month = f"on day{'s' if len(days) > 1 else ''} {_listed(days)}{f' of {month}' if month else ''}"
    of_week = f"on {_listed(weekdays, WEEKDAYS.__getitem__)}"
    if every_weekday:
        return of_month
    if every_day:
        return of_week
    if either:
        return f"{of_month} or {of_week}"
    return f"{of_week} if it is {of_month.removeprefix('on ').replace('days', 'day')}"


def _listed(values: Values, name: Callable[[int], str] = str) -> str:
    """`1, 3 and 5`, `Monday to Friday`, `1, 3, 5 … 31`."""
    if _step(values) > 1 and len(values) > MOST_STEPS:
        return f"{', '.join(map(name, values[:3]))} … {name(values[-1])}"
    said: list[str] = []
    for run in _runs(values):
        said += [f"{name(run[0])} to {name(run[-1])}"] if len(run) > 2 else [name(value) for value in run]
    return _and(said)


def _runs(values: Values) -> list[list[int]]:
    runs: list[list[int]] = []
    for value in values:
        if runs and value == runs[-1][-1] + 1:
            runs[-1].append(value)
        else:
            runs.append([value])
    return runs


def _step(values: Values) -> int:
    """How far apart they are, where all are equally far; else 0."""
    apart = {after - before for before, after in pairwise(values)}
    return apart.pop() if len(apart) == 1 else 0


def _and(said: list[str]) -> str:
    return f"{', '.join(said[:-1])} and {said[-1]}" if len(said) > 1 else said[0]


def _clock(hour: int, minute: int) -> str:
    return f"{hour:02}:{minute:02}"
