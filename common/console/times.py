"""Times as text, relative and absolute, in the reader's time zone."""

from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo, available_timezones

from django.http import HttpRequest
from django.utils import timezone

STEPS = ((60, "s", 1), (3600, "min", 60), (86400, "h", 3600), (float("inf"), "d", 86400))
ZONE_COOKIE = "zone"


def relative(moment: datetime, now: datetime) -> str:
    """`6 min ago`, `in 6 d`, `now`."""
    return _said(moment - now)


def _said(span: timedelta) -> str:
    seconds = round(span.total_seconds())
    if abs(seconds) < 5:
        return "now"
    unit, size = next((unit, size) for limit, unit, size in STEPS if abs(seconds) < limit)
    amount = f"{abs(seconds) // size} {unit}"
    return f"in {amount}" if seconds > 0 else f"{amount} ago"


def absolute(moment: datetime, now: datetime) -> str:
    """`24 Nov 14:00`, with the year if it is not the current year."""
    zone = timezone.get_current_timezone()
    local, local_now = _in(zone, moment), _in(zone, now)
    year = f" {local.year}" if local.year != local_now.year else ""
    return f"{local.day} {local:%b}{year} {local:%H:%M}"


def exact(moment: datetime) -> str:
    """`18 Nov 2026, 14:02:11.482 CET`, the format of logs."""
    local = _in(timezone.get_current_timezone(), moment)
    return f"{local.day} {local:%b %Y, %H:%M:%S}.{local.microsecond // 1000:03d} {local:%Z}"


def stamp(moment: datetime) -> str:
    """UTC in ISO 8601 with a `Z`, for machines."""
    return _in(UTC, moment).strftime("%Y-%m-%dT%H:%M:%SZ")


def lasts(span: timedelta) -> str:
    return _said(span).removeprefix("in ")


def lasted(milliseconds: float) -> str:
    """`4 ms`, `1.2 s`: rounded, because readers of a log need the order of magnitude."""
    if milliseconds >= 1000:
        return f"{milliseconds / 1000:.1f} s"
    return f"{milliseconds:.0f} ms" if milliseconds >= 1 else "< 1 ms"


def _in(zone: tzinfo, moment: datetime) -> datetime:
    """Convert to the time zone; return the time unchanged if the result is outside the calendar."""
    try:
        return moment.astimezone(zone)
    except OverflowError:
        return moment


def zone_of(request: HttpRequest) -> ZoneInfo:
    """The user's time zone from the profile, else from the browser's cookie, else UTC."""
    for name in (getattr(request.user, "time_zone", ""), request.COOKIES.get(ZONE_COOKIE, "")):
        if name and name in _ZONES:
            return ZoneInfo(name)
    return ZoneInfo("UTC")


_ZONES = frozenset(available_timezones())
