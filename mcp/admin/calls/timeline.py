"""The bar of calls over time above the call log."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db.models import CharField, DateTimeField, F, IntegerField, Min, Q, QuerySet, Subquery, Sum, Value
from django.db.models.functions import Coalesce, TruncHour, TruncMinute
from django.http import HttpRequest, QueryDict
from django.utils import timezone

from common.console.lists import OWN, FilterState, ListQuery
from common.db.clock import start_of_hour
from common.ids import parse_uuid
from mcp.admin.calls import filters
from mcp.admin.calls.filters import LAST_DAY, OTHER_SPANS
from mcp.gateway import call_statistics
from mcp.models import Server
from nhi.actors import Actor
from nhi.choices import CallStatus, Kind
from nhi.console.log_filters import SPANS, parse_time
from nhi.console.request_actor import actor_of
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


def counts(actor: Actor, of: Window, narrowed: Sequence[FilterState], now: datetime) -> Counted:
    """Hours that are over from their sums, at most the last two or three from the log by time."""
    own = Q(agent_id__in=Identity.objects.managed_by(actor).values("pk"))
    seen = Q() if actor.may("nhi.view_invocationlog") else own
    kept = [one for one in narrowed if known(one, of)]
    log = _narrowed(InvocationLog.objects.filter(seen, timestamp__lt=of.ends), kept)
    if of.short:
        minutes = log.filter(timestamp__gte=of.begins)
        return _added(_parted(minutes, LOGGED, TruncMinute("timestamp", tzinfo=UTC), Sum("calls")), of)
    sums = _narrowed(CallRollup.objects.filter(seen, hour__gte=of.begins, hour__lt=of.ends), kept)
    opens = max(start_of_hour(now - call_statistics.SETTLE_DELAY - HOUR), of.begins)
    hours = log.filter(timestamp__gte=opens)
    parts = (
        _parted(hours, LOGGED, TruncHour("timestamp", tzinfo=UTC), Sum("calls")),
        _unsummed(of.begins, min(opens, of.ends)),
    )
    return _added(_parted(sums, SUMMED, F("hour"), Sum("calls")).union(*parts, all=True), of)


def known(one: FilterState, of: Window) -> bool:
    """Sums know no reason and no duration of a call, and parts of names are for the list to look up in three tables."""
    name = one.filter.name
    if name == "outcome":
        return of.short or ":" not in one.value
    return name in {"agent", "owner", "server", "tool"} or (of.short and name == "slower")


def _narrowed(rows: Rows, kept: Sequence[FilterState]) -> Rows:
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


#: The height of the picture and of its smallest bar, and the width of a bar with its gap, in units of its own.
HEIGHT, LEAST, WIDE = 60.0, 2.0, 10
REFUSED = (CallStatus.PERMISSION_DENIED, CallStatus.RATE_LIMITED)
SHOWN = (
    (CallStatus.PERMISSION_DENIED, "Denied"),
    (CallStatus.RATE_LIMITED, "Rate limited"),
    (CallStatus.ERROR, "Errors"),
)
WIDTH_LABELS = {MINUTE: "a minute", 2 * MINUTE: "2 minutes", HOUR: "an hour", 6 * HOUR: "6 hours"}


@dataclass(frozen=True)
class Bar:
    """The calls of one stretch: those let through below, the refused above them."""

    x: int
    label: str
    url: str
    calls: dict[str, int]
    #: The most calls of any bar.
    most: int

    @property
    def total(self) -> int:
        return sum(self.calls.values())

    @property
    def refused(self) -> int:
        return sum(self.calls.get(status, 0) for status in REFUSED)

    @property
    def cells(self) -> list[str]:
        return [f"{number:,}" for number in (self.total, *(self.calls.get(status, 0) for status, _ in SHOWN))]

    @property
    def words(self) -> str:
        refused = f", {self.refused:,} refused" if self.refused else ""
        return f"From {self.label}: {_calls(self.total)}{refused}"

    @property
    def passed_height(self) -> float:
        return self._height(self.total - self.refused)

    @property
    def refused_height(self) -> float:
        return self._height(self.refused)

    @property
    def passed_top(self) -> float:
        return round(HEIGHT - self.passed_height, 2)

    @property
    def refused_top(self) -> float:
        return round(self.passed_top - self.refused_height, 2)

    def _height(self, number: int) -> float:
        """Few beside many are still seen, and two parts of a bar never stand out of the picture."""
        return round(max(LEAST, number / self.most * (HEIGHT - LEAST)), 2) if number else 0.0


@dataclass(frozen=True)
class Strip:
    bars: list[Bar]
    summary: str
    notes: list[str]
    #: What a bar stands for.
    width: str

    @property
    def box(self) -> str:
        return f"0 0 {len(self.bars) * WIDE} {HEIGHT:g}"

    @property
    def axis(self) -> list[str]:
        return [self.bars[0].label, self.bars[len(self.bars) // 2].label, self.bars[-1].label]

    @property
    def table(self) -> list[Bar]:
        return [bar for bar in self.bars if bar.total]


def of(request: HttpRequest) -> Strip | None:
    """None where there is nothing to choose from: no call, or a single bar."""
    now = timezone.now()
    window = find_window(request.GET, now)
    if window is None or len(window.starts) < 2:
        return None
    # The filters of the list as they stand, without its rows.
    narrowed = ListQuery(request, InvocationLog.objects.none(), (), filters.FILTERS).narrowed
    counted = counts(actor_of(request), window, narrowed, now)
    bars = _bars(window, counted, request.GET)
    if not any(bar.total for bar in bars):
        return None
    return Strip(bars, _summary(bars, window), _notes(window, counted, narrowed), _width(window))


def _bars(window: Window, counted: Counted, query: QueryDict) -> list[Bar]:
    most = max(sum(calls.values()) for calls in counted.calls.values())
    return [
        Bar(number * WIDE, _label(start, window), _url(query, start, start + window.width), dict(calls), most)
        for number, (start, calls) in enumerate(counted.calls.items())
    ]


def _url(query: QueryDict, begins: datetime, ends: datetime) -> str:
    """The list as it stands, narrowed to this time."""
    kept = query.copy()
    for name in (*OWN, *TIMES):
        kept.pop(name, None)
    kept.update({"since": _local(begins), "until": _local(ends)})
    return f"?{kept.urlencode()}"


def _local(moment: datetime) -> str:
    return f"{timezone.localtime(moment):%Y-%m-%dT%H:%M}"


def _label(moment: datetime, window: Window) -> str:
    local = timezone.localtime(moment)
    if window.width > 6 * HOUR:
        return f"{local.day} {local:%b}"
    return f"{local:%H:%M}" if window.ends - window.begins < 20 * HOUR else f"{local:%a %H:%M}"


def _width(window: Window) -> str:
    return WIDTH_LABELS.get(window.width, "a day")


def _summary(bars: list[Bar], window: Window) -> str:
    counts = {name: sum(bar.calls.get(status, 0) for bar in bars) for status, name in SHOWN}
    said = ", ".join(
        [_calls(sum(bar.total for bar in bars)), *(f"{n:,} {_of_one(name, n)}" for name, n in counts.items() if n)]
    )
    top = max(bars, key=lambda bar: bar.total)
    return f"{said}. A bar is {_width(window)}; the highest, from {top.label}, has {top.total:,}."


def _of_one(name: str, number: int) -> str:
    return name.lower().removesuffix("s") if number == 1 else name.lower()


def _calls(number: int) -> str:
    return f"{number:,} {'call' if number == 1 else 'calls'}"


def _notes(window: Window, counted: Counted, narrowed: list[FilterState]) -> list[str]:
    """Where the strip shows other calls than the list."""
    others = [one for one in narrowed if one.filter.name not in TIMES]
    left_out = [one.filter.label for one in others if not known(one, window)]
    notes = []
    if left_out:
        notes.append(f"Drawn without the {'filter' if len(left_out) == 1 else 'filters'} {', '.join(left_out)}.")
    if window.cut:
        notes.append(f"Drawn are the last {LONGEST.days} days of it.")
    if counted.behind:
        notes.append(
            f"Calls from {_local(counted.behind).replace('T', ' ')} on are missing: their hours are not summed yet."
        )
    return notes
