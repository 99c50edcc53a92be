"""Charts as the page draws them: a question, a sentence that answers it, the numbers, and where they lead."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from django.utils import timezone

from common.console import badges, times
from common.console.badges import Badge
from common.console.charts import HOUR, Bar, BarChart, Chart, ChartRange, StatusCell, StatusRow
from common.console.pages import link, link_if_any
from common.db.clock import start_of_hour
from common.templatetags.console import spell_invisible
from mcp.admin.calls.filters import log_url
from mcp.admin.home.chart_data import Hour
from mcp.admin.home.limit_charts import CELLS, WORST
from mcp.admin.limits.budget_usage import Line, lines_of
from mcp.limits.budgets import BudgetUsage
from nhi.choices import CallStatus

SHOWN = 8
#: In the order in which they are stacked, with the names of their colours.
SERIES = (
    (CallStatus.SUCCESS, "Success", "success"),
    (CallStatus.PERMISSION_DENIED, "Denied", "denied"),
    (CallStatus.RATE_LIMITED, "Rate limited", "limited"),
    (CallStatus.ERROR, "Error", "error"),
)


def _local(moment: datetime) -> str:
    """As the filter's field takes it: on the clock of who looks."""
    return moment.astimezone(timezone.get_current_timezone()).strftime("%Y-%m-%dT%H:%M")


def _between(bar: Hour, hours: int) -> dict[str, str]:
    return {"since": _local(bar.begins), "until": _local(bar.begins + timedelta(hours=hours))}


def _labels(bars: list[Hour], chosen: ChartRange) -> list[str]:
    form = "%H:%M" if chosen.hours == 1 else "%a %H:%M" if chosen.hours < 24 else "%d %b"
    return [bar.begins.astimezone(timezone.get_current_timezone()).strftime(form) for bar in bars]


def calls(bars: list[Hour], chosen: ChartRange) -> Chart:
    labels = _labels(bars, chosen)
    urls = [log_url(**_between(bar, chosen.hours)) for bar in bars]
    series = [
        {"name": name, "colour": colour, "values": [bar.calls[status] for bar in bars], "query": f"&outcome={status}"}
        for status, name, colour in SERIES
    ]
    rows = [
        {
            "label": label,
            "url": url,
            "cells": [*(f"{bar.calls[status]:,}" for status, _, _ in SERIES), f"{bar.total:,}"],
        }
        for label, url, bar in zip(labels, urls, bars, strict=True)
    ]
    return Chart(
        "calls", "Is anything different today?" if chosen.hours == 1 else "Is anything different lately?",
        _counted(bars), ["From", *(name for _, name, _ in SERIES), "All"], rows,
        {"kind": "bars", "labels": labels, "urls": urls, "series": series, "unit": "calls"},
    )  # fmt: skip


def _counted(bars: list[Hour]) -> str:
    total = sum(bar.total for bar in bars)
    sums = {status: sum(bar.calls[status] for bar in bars) for status, _, _ in SERIES}
    refused = sums[CallStatus.PERMISSION_DENIED] + sums[CallStatus.RATE_LIMITED]
    said = f"{total:,} {'call' if total == 1 else 'calls'}, {refused:,} refused ({_percent(refused, total)})"
    return f"{said}, {sums[CallStatus.ERROR]:,} {'error' if sums[CallStatus.ERROR] == 1 else 'errors'}."


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "0 %"


def latency(bars: list[Hour], chosen: ChartRange) -> Chart:
    labels = _labels(bars, chosen)
    urls = [log_url(slower=_half(bar), **_between(bar, chosen.hours)) for bar in bars]
    lines = [("Half are faster (p50)", "success", 0.5, False), ("95 of 100 are faster (p95)", "error", 0.95, True)]
    series = [
        {"name": name, "colour": colour, "dashed": dashed, "values": [bar.quantile(share) for bar in bars], "query": ""}
        for name, colour, share, dashed in lines
    ]
    rows = [
        {"label": label, "url": url, "cells": [_lasted(bar.quantile(0.5)), _lasted(bar.quantile(0.95))]}
        for label, url, bar in zip(labels, urls, bars, strict=True)
    ]
    return Chart(
        "latency", "Did it get slower?", _slowest(bars, labels), ["From", "p50", "p95"], rows,
        {"kind": "lines", "labels": labels, "urls": urls, "series": series, "unit": "ms"},
    )  # fmt: skip


def _half(bar: Hour) -> str:
    """What half of its calls were faster than: the log then shows the slower ones."""
    half = bar.quantile(0.5)
    return "" if half is None else f"{half:.0f}"


def _lasted(milliseconds: float | None) -> str:
    return "\u2013" if milliseconds is None else times.lasted(milliseconds)


def _slowest(bars: list[Hour], labels: list[str]) -> str:
    found = [
        (worst, label) for bar, label in zip(bars, labels, strict=True) if (worst := bar.quantile(0.95)) is not None
    ]
    if not found:
        return "No call reached a server."
    whole = Hour(bars[0].begins)
    whole.buckets = [sum(column) for column in zip(*(bar.buckets for bar in bars), strict=True)]
    worst, label = max(found)
    said = (
        f"Half of all calls took up to {_lasted(whole.quantile(0.5))}, 95 of 100 up to {_lasted(whole.quantile(0.95))}"
    )
    return f"{said}; slowest at {label} with {_lasted(worst)}. From latency classes, so about."


def top(what: str, question: str, counts: dict[str, dict[str, int]], span: str) -> BarChart:
    """The most called, and the rest as one line."""
    ranked = sorted(counts.items(), key=lambda item: (-sum(item[1].values()), item[0]))
    most = sum(ranked[0][1].values()) if ranked else 0
    bars = [_called(name, by, most, log_url(**{what: name, "span": span})) for name, by in ranked[:SHOWN]]
    rest = sum(sum(by.values()) for _, by in ranked[SHOWN:])
    if rest:
        bars.append(Bar(f"{len(ranked) - SHOWN} others", "", rest, min(100.0, 100 * rest / most), f"{rest:,}"))
    leader = ""
    if ranked:
        every = sum(sum(by.values()) for _, by in ranked)
        leader = f"{spell_invisible(ranked[0][0])} leads with {most:,} of {every:,} calls."
    return BarChart(f"top-{what}s", question, leader or "No call.", bars)


def _called(name: str, by: dict[str, int], most: int, url: str) -> Bar:
    total = sum(by.values())
    refused = by.get(CallStatus.PERMISSION_DENIED, 0) + by.get(CallStatus.RATE_LIMITED, 0)
    words = f"{total:,}" + (f", {_percent(refused, total)} refused" if refused else "")
    return Bar(spell_invisible(name), url, total, round(100 * total / most, 1), words)


def reasons(rows: list[tuple[str, str, int]], span: str) -> BarChart:
    most, total = rows[0][2] if rows else 0, sum(row[2] for row in rows)
    bars = [
        Bar(
            reason or "no reason", log_url(outcome=f"{status}:{reason}", span=span), calls,
            round(100 * calls / most, 1), f"{calls:,}",
        )
        for status, reason, calls in rows[:SHOWN]
    ]  # fmt: skip
    said = f"{rows[0][1]} is {_percent(most, total)} of {total:,} refusals." if rows else "No call was refused."
    return BarChart("reasons", "Why are calls refused?", said, bars)


@dataclass(frozen=True)
class Burn:
    name: str
    url: str
    lines: list[Line]


def burning(budgets: list[Any]) -> list[Burn]:
    found = []
    for one in budgets:
        used = BudgetUsage(one.today_used, one.hour_used, one.flying, None, timezone.now())
        lines = [line for line in lines_of(one, used, hourly=one.granted) if line.tone != "some"]
        found.append(Burn(str(one), f"{link('mcp_budget_changelist')}?{urlencode({'q': one.target_name})}", lines))
    return found


def cells(found: dict[Any, dict[datetime, int]]) -> list[StatusRow]:
    """A line for each server; each hour with the worst that was found in it."""
    now = start_of_hour(timezone.now())
    hours = [now - number * HOUR for number in reversed(range(CELLS))]
    return [_row(name, server, by_hour, hours) for (name, server), by_hour in found.items()]


def _row(name: str, server: Any, by_hour: dict[datetime, int], hours: list[datetime]) -> StatusRow:
    bad = [hour for hour in hours if by_hour.get(hour, 0)]
    words = f"{len(bad)} of {CELLS} hours with trouble" if bad else "no trouble"
    url = link_if_any("mcp_server_health", server) or link_if_any("mcp_server_hub", server)
    return StatusRow(name, url, [_cell(hour, by_hour.get(hour)) for hour in hours], words)


def _cell(hour: datetime, place: int | None) -> StatusCell:
    found: Badge = badges.find("mcp.HealthStatus", "none" if place is None else WORST[place])
    return StatusCell(found.tone.value, f"{times.absolute(hour, timezone.now())} {found.label}")
