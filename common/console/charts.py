"""Charts: the ranges a person chooses from, and what a page draws."""

import json
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from django.http import HttpRequest

from common.console.pages import Tab

HOUR = timedelta(hours=1)


@dataclass(frozen=True)
class ChartRange:
    """A span of the charts: how long, and how many hours a bar stands for."""

    key: str
    words: str
    span: timedelta
    hours: int


CHART_RANGES = {
    one.key: one
    for one in (
        ChartRange("24h", "24 h", timedelta(hours=24), 1),
        ChartRange("7d", "7 d", timedelta(days=7), 6),
        ChartRange("30d", "30 d", timedelta(days=30), 24),
    )
}


DEFAULT_RANGE = "24h"


@dataclass(frozen=True)
class Chart:
    """A chart over time, drawn by a script, and a table with the same data."""

    id: str
    question: str
    summary: str
    head: list[str]
    rows: list[dict[str, Any]]
    config: dict[str, Any]

    @property
    def json(self) -> str:
        return json.dumps(self.config)


@dataclass(frozen=True)
class Bar:
    """One bar of a chart: its length in percent (`share`) and the text beside it (`words`)."""

    name: str
    url: str
    value: int
    share: float
    words: str


@dataclass(frozen=True)
class BarChart:
    """A chart that compares names by their numbers, headed by the question that it answers and a summary."""

    id: str
    question: str
    summary: str
    bars: list[Bar] = field(default_factory=list)


@dataclass(frozen=True)
class StatusCell:
    """One period in a status row, with the text that describes it (`words`)."""

    tone: str
    words: str


@dataclass(frozen=True)
class StatusRow:
    """The status of one object over time: a cell for each period, and a summary in words."""

    name: str
    url: str
    cells: list[StatusCell]
    words: str


def get_chosen_range(request: HttpRequest) -> ChartRange:
    return CHART_RANGES.get(request.GET.get("range", ""), CHART_RANGES[DEFAULT_RANGE])


def range_tabs(current: ChartRange, url: str, *, query: str = "") -> list[Tab]:
    """One tab for each range; `query` is appended to the address of each."""
    return [
        Tab(option.words, f"{url}?range={option.key}{query}", current=option is current)
        for option in CHART_RANGES.values()
    ]
