"""Moments in words: relative beside absolute, in the zone of who looks."""

from datetime import datetime, timedelta
from zoneinfo import ZoneInfo, available_timezones

from django.http import HttpRequest
from django.utils import timezone

STEPS = ((60, "s", 1), (3600, "min", 60), (86400, "h", 3600), (float("inf"), "d", 86400))
ZONE_COOKIE = "zone"


def relative(moment: datetime, now: datetime) -> str:
    """`6 min ago`, `in 6 d`, `now`."""
    seconds = round((moment - now).total_seconds())
    if abs(seconds) < 5:
        return "now"
    unit, size = next((unit, size) for limit, unit, size in STEPS if abs(seconds) < limit)
    amount = f"{abs(seconds) // size} {unit}"
    return f"in {amount}" if seconds > 0 else f"{amount} ago"


def absolute(moment: datetime, now: datetime) -> str:
    """`24 Nov 14:00`, with the year when it is another one."""
    local, here = timezone.localtime(moment), timezone.localtime(now)
    year = f" {local.year}" if local.year != here.year else ""
    return f"{local.day} {local:%b}{year} {local:%H:%M}"


def exact(moment: datetime) -> str:
    """`18 Nov 2026, 14:02:11.482 CET`: what logs show."""
    local = timezone.localtime(moment)
    return f"{local.day} {local:%b %Y, %H:%M:%S}.{local.microsecond // 1000:03d} {local:%Z}"


def stamp(moment: datetime) -> str:
    """For machines: UTC with a Z."""
    return moment.astimezone(ZoneInfo("UTC")).strftime("%Y-%m-%dT%H:%M:%SZ")


def lasts(span: timedelta) -> str:
    return relative(timezone.now() + span, timezone.now()).removeprefix("in ")


def zone_of(request: HttpRequest) -> ZoneInfo:
    """The person's own zone, else the browser's, else UTC."""
    for name in (getattr(request.user, "time_zone", ""), request.COOKIES.get(ZONE_COOKIE, "")):
        if name and name in _ZONES:
            return ZoneInfo(name)
    return ZoneInfo("UTC")


_ZONES = frozenset(available_timezones())
