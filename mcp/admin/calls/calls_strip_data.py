"""What the strip above the log is made of: the time that the list shows, and its calls by outcome, in one statement."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db.models import CharField, DateTimeField, F, IntegerField, Min, Q, QuerySet, Subquery, Sum, Value
from django.db.models.functions import Coalesce, TruncHour, TruncMinute
from django.utils import timezone

from common.console.lists import Drawn
from common.db.clock import start_of_hour
from common.ids import parse_uuid
from mcp.admin.calls.filters import LAST_DAY, OTHER_SPANS
from mcp.gateway import rollups
from mcp.models import Server
from nhi.actors import Actor
from nhi.choices import Kind
from nhi.console.log_filters import SPANS, parse_time
from nhi.models import CallRollup, Identity, InvocationLog

HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)
#: Of a longer time the last days are drawn: sums of years would be read for a picture of a thumb's height.
LONGEST = timedelta(days=31)
#: So short a time is read from the log itself, by its index; of a longer one, hours that are over come from their sums.
SHORT = timedelta(hours=2)
#: The longest time that a bar of this width is for, in their order; beyond the last a bar is a day.
WIDTHS = (
    (timedelta(minutes=75), MINUTE),
    (SHORT, 2 * MINUTE),
    (timedelta(hours=40), HOUR),
    (timedelta(days=8), 6 * HOUR),
)
#: Nothing was called before; the calendar's own beginning has no month before it to draw.
OLDEST = 2000
TIMES = frozenset({"span", "since", "until"})
BEHIND, SUMMED, LOGGED = "behind", "summed", "logged"

Rows = QuerySet[Any]
Counts = dict[datetime, dict[str, int]]


@dataclass(frozen=True)
class Window:
    """The time of the strip, in whole bars."""

    begins: datetime
    ends: datetime
    width: timedelta
    #: The list shows older calls too.
    cut: bool

    @property
    def short(self) -> bool:
        return self.width < HOUR

    @property
    def starts(self) -> list[datetime]:
        return [self.begins + number * self.width for number in range(-((self.begins - self.ends) // self.width))]


@dataclass(frozen=True)
class Counted:
    calls: Counts
    #: From here on there are calls that were not summed yet, though their hours are over.
    behind: datetime | None


def find_window(query: Any, now: datetime) -> Window | None:
    """The time that the list is narrowed to; none for the calls of an id, which may be of any time."""
    if parse_uuid(query.get("find", "")):
        return None
    said = {name: query.get(name, "").strip() for name in TIMES}
    since, until = parse_time(said["since"]), parse_time(said["until"])
    if (said["since"] and not since) or (said["until"] and not until):
        return None
    span = said["span"] if said["span"] in OTHER_SPANS else ""
    ends = min(now, until or now)
    if ends.year < OLDEST:
        return None
    spans = [SPANS[span][1]] if span in SPANS else [] if span or since or until else [LAST_DAY]
    begins = max([*(now - span for span in spans), *([since] if since else [])], default=None)
    cut = begins is None or ends - begins > LONGEST
    begins = ends - LONGEST if begins is None or cut else begins
    return _whole(begins, ends, cut) if begins < ends else None


def _whole(begins: datetime, ends: datetime, cut: bool) -> Window:
    """From where a bar begins on the clock of who looks; sums begin with the hours of UTC, which some zones part."""
    width = next((width for most, width in WIDTHS if ends - begins <= most), 24 * HOUR)
    local = timezone.localtime(begins)
    into = timedelta(hours=local.hour, minutes=local.minute, seconds=local.second, microseconds=local.microsecond)
    first = (begins - into % width).astimezone(UTC)
    return Window(first if width < HOUR else start_of_hour(first), ends, width, cut)


def counts(actor: Actor, of: Window, narrowed: Sequence[Drawn], now: datetime) -> Counted:
    """Hours that are over from their sums, at most the last two or three from the log by time."""
    own = Q(agent_id__in=Identity.objects.managed_by(actor).values("pk"))
    seen = Q() if actor.may("nhi.view_invocationlog") else own
    kept = [one for one in narrowed if known(one, of)]
    log = _narrowed(InvocationLog.objects.filter(seen, timestamp__lt=of.ends), kept)
    if of.short:
        minutes = log.filter(timestamp__gte=of.begins)
        return _added(_parted(minutes, LOGGED, TruncMinute("timestamp", tzinfo=UTC), Sum("calls")), of)
    sums = _narrowed(CallRollup.objects.filter(seen, hour__gte=of.begins, hour__lt=of.ends), kept)
    opens = max(start_of_hour(now - rollups.SETTLE_DELAY - HOUR), of.begins)
    hours = log.filter(timestamp__gte=opens)
    parts = (
        _parted(hours, LOGGED, TruncHour("timestamp", tzinfo=UTC), Sum("calls")),
        _unsummed(of.begins, min(opens, of.ends)),
    )
    return _added(_parted(sums, SUMMED, F("hour"), Sum("calls")).union(*parts, all=True), of)


def known(one: Drawn, of: Window) -> bool:
    """Sums know no reason and no duration of a call, and parts of names are for the list to look up in three tables."""
    name = one.filter.name
    if name == "outcome":
        return of.short or ":" not in one.value
    return name in {"agent", "owner", "server", "tool"} or (of.short and name == "slower")


def _narrowed(rows: Rows, kept: Sequence[Drawn]) -> Rows:
    for one in kept:
        rows = IN_PLACE.get(one.filter.name, one.filter.apply)(rows, one.value)
    return rows


def _by_agent(rows: Rows, value: str) -> Rows:
    known = parse_uuid(value)
    return rows.filter(agent_id=known) if known else _of_callers(rows, name=value)


def _by_owner(rows: Rows, value: str) -> Rows:
    return _of_callers(rows, owner__username__iexact=value)


def _of_callers(rows: Rows, **which: str) -> Rows:
    return rows.filter(agent_id__in=Identity.objects.filter(**which).exclude(kind=Kind.TOOL).values("pk"))


def _by_tool(rows: Rows, value: str) -> Rows:
    server, split, tool = value.partition("__")
    if split:
        return rows.filter(tool_name=server, method=tool)
    server, _, tool = value.partition(".")
    of_any = Q(tool_name__in=Server.objects.values("name"), method=value)
    return rows.filter(Q(tool_name=server, method=tool) | of_any if tool else of_any)


#: The list looks these up first, a query each; here they stand in the one statement.
IN_PLACE = {"agent": _by_agent, "owner": _by_owner, "tool": _by_tool}


def _parted(rows: Rows, origin: str, moment: Any, number: Any) -> Rows:
    named = rows.order_by().annotate(origin=Value(origin, output_field=CharField()), at=moment)
    counted: Rows = named.values_list("origin", "at", "status").annotate(number=number)
    return counted


def _unsummed(begins: datetime, ends: datetime) -> Rows:
    """When the first call was of an hour that is over and has no sum yet. They are made every few minutes."""
    last = Subquery(CallRollup.objects.order_by("-hour").values("hour")[:1])
    since = Coalesce(last + HOUR, begins, output_field=DateTimeField())
    late = (
        InvocationLog.objects.order_by().filter(timestamp__gte=since).filter(timestamp__gte=begins, timestamp__lt=ends)
    )
    first: Rows = (
        late.annotate(origin=Value(BEHIND, output_field=CharField()), nothing=Value("", output_field=CharField()))
        .values("origin", "nothing")
        .annotate(at=Min("timestamp"), number=Value(0, output_field=IntegerField()))
        .values_list("origin", "at", "nothing", "number")
    )
    return first


def _added(rows: Rows, of: Window) -> Counted:
    """By bar and status. Where an hour has its sum, that counts: the log is read a little beyond what is open."""
    found = list(rows)
    summed = {at for origin, at, _, _ in found if origin == SUMMED}
    calls: Counts = {start: defaultdict(int) for start in of.starts}
    for origin, at, status, number in found:
        if origin == SUMMED or (origin == LOGGED and at not in summed):
            calls[of.begins + (at - of.begins) // of.width * of.width][status] += number
    return Counted(calls, next((at for origin, at, _, _ in found if origin == BEHIND and at), None))
