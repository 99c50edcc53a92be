"""Charts of runs as a page draws them: a question, a sentence that answers it, the numbers, and where they lead."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from django.utils import timezone

from common.console.charts import Chart, ChartRange
from common.console.pages import link
from supervisor.admin import executions_cells
from supervisor.admin.charts_data import Stretch
from supervisor.admin.executions_filters import list_url
from supervisor.choices import OUTCOMES, ExecutionStatus
from supervisor.models import Execution

#: In the order in which they are stacked, with the names of their colours.
SERIES = (
    (ExecutionStatus.SUCCESS, "Completed", "success"),
    (ExecutionStatus.CANCELLED, "Cancelled", "denied"),
    (ExecutionStatus.TIMEOUT, "Timed out", "limited"),
    (ExecutionStatus.FAILURE, "Failed", "error"),
)
STATES = {status: state for state, status in OUTCOMES.items()}
#: Rows of the table under a chart of samples.
MOST_ROWS = 40


def outcomes(bars: list[Stretch], chosen: ChartRange, agent: str = "") -> Chart:
    labels = [_label(bar, chosen) for bar in bars]
    urls = [_between(bar, chosen, agent) for bar in bars]
    series = [
        {
            "name": name, "colour": colour, "values": [bar.runs[status] for bar in bars],
            "query": f"&state={STATES[status]}",
        }
        for status, name, colour in SERIES
    ]  # fmt: skip
    rows = [
        {"label": label, "url": url, "cells": [*(f"{bar.runs[status]:,}" for status, _, _ in SERIES), f"{bar.total:,}"]}
        for label, url, bar in zip(labels, urls, bars, strict=True)
    ]
    return Chart(
        "outcomes", "Does it fail more?" if agent else "Do runs fail more?", _counted(bars),
        ["From", *(name for _, name, _ in SERIES), "All"], rows,
        {"kind": "bars", "labels": labels, "urls": urls, "series": series, "unit": "runs"},
    )  # fmt: skip


def _label(bar: Stretch, chosen: ChartRange) -> str:
    form = "%H:%M" if chosen.hours == 1 else "%a %H:%M" if chosen.hours < 24 else "%d %b"
    return bar.begins.astimezone(timezone.get_current_timezone()).strftime(form)


def _between(bar: Stretch, chosen: ChartRange, agent: str) -> str:
    zone = timezone.get_current_timezone()
    ends = bar.begins + timedelta(hours=chosen.hours)
    since, until = (moment.astimezone(zone).strftime("%Y-%m-%dT%H:%M") for moment in (bar.begins, ends))
    return list_url(agent=agent, since=since, until=until)


def _counted(bars: list[Stretch]) -> str:
    total = sum(bar.total for bar in bars)
    sums = {status: sum(bar.runs[status] for bar in bars) for status, _, _ in SERIES}
    wrong = sums[ExecutionStatus.FAILURE] + sums[ExecutionStatus.TIMEOUT]
    share = f" ({100 * wrong / total:.0f} %)" if total else ""
    return f"{total:,} {'run' if total == 1 else 'runs'}, {wrong:,} failed or timed out{share}."


def durations(runs: Sequence[Execution]) -> Chart:
    """A dot for each of the last runs, in the colour of what came of it."""
    labels = [f"#{run.number}" for run in runs]
    urls = [link("supervisor_execution_hub", run.pk) for run in runs]
    took = [_seconds(run) for run in runs]
    series = [
        {
            "name": name, "colour": colour, "dots": True, "query": "",
            "values": [value if run.status == status else None for run, value in zip(runs, took, strict=True)],
        }
        for status, name, colour in SERIES
        if any(run.status == status for run in runs)
    ]  # fmt: skip
    rows = [
        {"label": label, "url": url, "cells": [executions_cells.standing(run).label, _words(value)]}
        for label, url, run, value in zip(labels, urls, runs, took, strict=True)
    ]
    return Chart(
        "durations", "Does it take longer?", _longest(labels, took), ["Run", "Outcome", "Took"], rows,
        {"kind": "lines", "labels": labels, "urls": urls, "series": series, "unit": "s"},
    )  # fmt: skip


def _seconds(run: Execution) -> float:
    assert run.start_time is not None  # only runs that began are asked for
    return round(((run.end_time or timezone.now()) - run.start_time).total_seconds(), 3)


def _words(seconds: float) -> str:
    return executions_cells.span(timedelta(seconds=seconds))


def _longest(labels: list[str], took: list[float]) -> str:
    if not took:
        return "No run has ended yet."
    middle, most = sorted(took)[len(took) // 2], max(took)
    last = "last run" if len(took) == 1 else f"last {len(took)} runs"
    return f"Of the {last}, half took up to {_words(middle)}; the longest, {labels[took.index(most)]}, {_words(most)}."


def sparks(samples: Sequence[Sequence[float]]) -> dict[str, str]:
    """The same in a line's height, beside the numbers that say it: points of a polyline of 120 by 20."""
    if len(samples) < 2:
        return {}
    at, cpu, memory = list(zip(*samples, strict=True))[:3]
    return {"cpu": _points(at, cpu), "memory": _points(at, memory)}


def _points(at: Sequence[float], values: Sequence[float]) -> str:
    begins, most = at[0], max(values) or 1
    over = (at[-1] - begins) or 1
    placed = zip(at, values, strict=True)
    return " ".join(f"{120 * (x - begins) / over:.1f},{19 - 18 * y / most:.1f}" for x, y in placed)


def resources(samples: Sequence[Sequence[float]]) -> list[Chart]:
    """What a run used over its time: `[seconds, CPU %, MB, MB read, MB written]` each."""
    if len(samples) < 2:
        return []
    columns = list(zip(*samples, strict=True))
    at, cpu, memory, read, written = columns[:5]
    return [
        _over_time("cpu", "How busy was it?", "%", at, [("Processor", "success", cpu)]),
        _over_time("memory", "How much memory did it hold?", "MB", at, [("Memory", "error", memory)]),
        _over_time(
            "disk", "How much did it read and write?", "MB", at,
            [("Read", "success", read), ("Written", "error", written)],
        ),
    ]  # fmt: skip


def _over_time(
    name: str, question: str, unit: str, at: Sequence[float], lines: list[tuple[str, str, Sequence[float]]]
) -> Chart:
    labels = [_words(moment) for moment in at]
    series = [
        {"name": words, "colour": colour, "dashed": bool(number), "small": True, "values": list(values), "query": ""}
        for number, (words, colour, values) in enumerate(lines)
    ]
    thin = max(1, len(at) // MOST_ROWS)
    rows: list[dict[str, Any]] = [
        {"label": labels[row], "url": "", "cells": [f"{values[row]:g} {unit}" for _, _, values in lines]}
        for row in range(0, len(at), thin)
    ]
    most = "; ".join(f"{words.lower()} at most {max(values):g} {unit}" for words, _, values in lines)
    said = f"In {len(at)} looks: {most}."
    return Chart(
        name, question, said, ["After", *(words for words, _, _ in lines)], rows,
        {"kind": "lines", "labels": labels, "urls": [], "series": series, "unit": unit},
    )  # fmt: skip
