"""Charts of tasks as a page draws them: a question, a sentence that answers it, the numbers, and where they lead."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

from django.utils import timezone

from a2a.admin import deliveries_filters, tasks_filters
from a2a.admin.charts_data import CALLED_OFF, HEARD, OVER, TRYING, Stretch
from a2a.admin.deliveries_filters import STOPPED, TRIED, UNHEARD
from a2a.admin.tasks_filters import AGES, OPEN, WAITING, WRONG
from a2a.choices import DeliveryState, TaskState
from common.console.charts import Chart, ChartRange

#: What is counted, its words, the name of its colour, and what narrows the list to it.
Series = tuple[str, str, str, str]
FLOW: tuple[Series, ...] = (
    ("sent", "Sent", "denied", ""),
    ("completed", "Completed", "success", f"&state={TaskState.COMPLETED}"),
    ("failed", "Failed", "error", f"&state={WRONG}"),
)
AGE: tuple[Series, ...] = (
    ("working", "Worked on", "success", f"&state={TaskState.WORKING}"),
    ("new", "Nobody has it", "denied", f"&state={TaskState.SUBMITTED}"),
    ("waiting", "Waits for its caller", "limited", f"&state={WAITING}"),
)
TOLD: tuple[Series, ...] = (
    (HEARD, "Delivered", "success", f"&state={DeliveryState.DELIVERED}"),
    (TRYING, "Still tried", "limited", f"&state={TRIED}"),
    (CALLED_OFF, "Called off", "denied", f"&state={STOPPED}"),
    (OVER, "Not delivered", "error", f"&state={UNHEARD}"),
)


def flow(bars: list[Stretch], chosen: ChartRange) -> Chart:
    chart = _over_time("flow", "Does work pile up?", _flowed(bars), FLOW, bars, chosen, tasks_filters.list_url)
    chart.config.update(kind="lines", unit="tasks")
    ended = [_ended(bar, bars[0], chosen) for bar in bars]
    for (what, *_), one in zip(FLOW, chart.config["series"], strict=True):
        one.update(area=True, small=True, dashed=what == "failed", **({} if what == "sent" else {"urls": ended}))
    return chart


def _ended(bar: Stretch, first: Stretch, chosen: ChartRange) -> str:
    """Those that ended in this stretch, of all that were sent in the range."""
    since, until = _limits(bar, chosen)
    return tasks_filters.list_url(since=_limits(first, chosen)[0], ended_since=since, ended_until=until)


def told(bars: list[Stretch], chosen: ChartRange) -> Chart:
    chart = _over_time("told", "Do they hear us?", _told(bars), TOLD, bars, chosen, deliveries_filters.list_url)
    chart.config.update(kind="bars", unit="deliveries")
    return chart


def ages(found: dict[str, dict[str, int]]) -> Chart:
    labels = [AGES[age][0] for age in found]
    urls = [tasks_filters.list_url(age=age, state=OPEN) for age in found]
    rows = [
        {"label": label, "url": url, "cells": [*(f"{by[name]:,}" for name, *_ in AGE), f"{sum(by.values()):,}"]}
        for label, url, by in zip(labels, urls, found.values(), strict=True)
    ]
    # Of a part of a bar the state stands for itself: two of one name are none.
    bare = [tasks_filters.list_url(age=age) for age in found]
    series = [_series(one, [by[one[0]] for by in found.values()]) for one in AGE]
    return Chart(
        "ages", "How old is what is open?", _aged(found), ["Open for", *(words for _, words, *_ in AGE), "All"], rows,
        {"kind": "bars", "labels": labels, "urls": bare, "series": series, "unit": "tasks", "whole": True},
    )  # fmt: skip


def _over_time(
    name: str, question: str, summary: str, all_series: Sequence[Series], bars: list[Stretch], chosen: ChartRange,
    list_url: Callable[..., str],
) -> Chart:  # fmt: skip
    labels = [_label(bar, chosen) for bar in bars]
    urls = [_between(bar, chosen, list_url) for bar in bars]
    rows: list[dict[str, Any]] = [
        {"label": label, "url": url, "cells": [f"{bar.of(what):,}" for what, *_ in all_series]}
        for label, url, bar in zip(labels, urls, bars, strict=True)
    ]
    series = [_series(one, [bar.of(one[0]) for bar in bars]) for one in all_series]
    head = ["From", *(words for _, words, *_ in all_series)]
    return Chart(name, question, summary, head, rows, {"labels": labels, "urls": urls, "series": series, "whole": True})


def _series(one: Series, values: list[int]) -> dict[str, Any]:
    _, words, colour, query = one
    return {"name": words, "colour": colour, "values": values, "query": query}


def _label(bar: Stretch, chosen: ChartRange) -> str:
    form = "%H:%M" if chosen.hours == 1 else "%a %H:%M" if chosen.hours < 24 else "%d %b"
    return bar.begins.astimezone(timezone.get_current_timezone()).strftime(form)


def _between(bar: Stretch, chosen: ChartRange, list_url: Callable[..., str]) -> str:
    since, until = _limits(bar, chosen)
    return list_url(since=since, until=until)


def _limits(bar: Stretch, chosen: ChartRange) -> tuple[str, str]:
    """As a filter's field takes them: on the clock of who looks."""
    zone = timezone.get_current_timezone()
    ends = bar.begins + timedelta(hours=chosen.hours)
    since, until = (moment.astimezone(zone).strftime("%Y-%m-%dT%H:%M") for moment in (bar.begins, ends))
    return since, until


def _flowed(bars: list[Stretch]) -> str:
    sent, completed, failed, left = (
        sum(bar.of(what) for bar in bars) for what in ("sent", "completed", "failed", "open")
    )
    return (
        f"{sent:,} {'task was' if sent == 1 else 'tasks were'} sent; of these {completed:,} completed, "
        f"{failed:,} failed or were rejected, {left:,} {'is' if left == 1 else 'are'} not done yet."
    )


def _aged(found: dict[str, dict[str, int]]) -> str:
    by_age = {age: sum(by.values()) for age, by in found.items()}
    total = sum(by_age.values())
    if not total:
        return "No task is open."
    oldest = next(age for age in reversed(by_age) if by_age[age])
    words = AGES[oldest][0]
    return f"{total:,} {'task is' if total == 1 else 'tasks are'} open; the oldest for {words[:1].lower()}{words[1:]}."


def _told(bars: list[Stretch]) -> str:
    heard, trying, over = (sum(bar.of(what) for bar in bars) for what in (HEARD, TRYING, OVER))
    ended = heard + over
    still = f"{trying:,} {'is' if trying == 1 else 'are'} still tried."
    if not ended:
        return f"No delivery is over yet; {still}"
    return f"{heard:,} of {ended:,} deliveries that are over were heard ({100 * heard / ended:.0f} %); {still}"
