"""The strip above the log: its calls over the time that the list shows, each bar the way to the calls of its time."""

from dataclasses import dataclass
from datetime import datetime

from django.http import HttpRequest, QueryDict
from django.utils import timezone

from common.console.lists import OWN, Drawn, Listing
from mcp.admin.calls import calls_strip_data, filters
from mcp.admin.calls.calls_strip_data import HOUR, MINUTE, TIMES, Counted, Window
from nhi.choices import CallStatus
from nhi.console.request_actor import actor_of
from nhi.models import InvocationLog

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
    window = calls_strip_data.find_window(request.GET, now)
    if window is None or len(window.starts) < 2:
        return None
    # The filters of the list as they stand, without its rows.
    narrowed = Listing(request, InvocationLog.objects.none(), (), filters.FILTERS).narrowed
    counted = calls_strip_data.counts(actor_of(request), window, narrowed, now)
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


def _notes(window: Window, counted: Counted, narrowed: list[Drawn]) -> list[str]:
    """Where the strip shows other calls than the list."""
    others = [one for one in narrowed if one.filter.name not in TIMES]
    left_out = [one.filter.label for one in others if not calls_strip_data.known(one, window)]
    notes = []
    if left_out:
        notes.append(f"Drawn without the {'filter' if len(left_out) == 1 else 'filters'} {', '.join(left_out)}.")
    if window.cut:
        notes.append(f"Drawn are the last {calls_strip_data.LONGEST.days} days of it.")
    if counted.behind:
        notes.append(
            f"Calls from {_local(counted.behind).replace('T', ' ')} on are missing: their hours are not summed yet."
        )
    return notes
