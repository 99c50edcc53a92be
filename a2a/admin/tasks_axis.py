"""A task between those that it is a part of and its own parts: one line each, on one axis of time."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString

from a2a.admin import tasks_cells
from a2a.models import Task

DEEPER = '<span class="gh-deeper" aria-hidden="true"></span>'
IT = '<strong aria-current="true">{}</strong>'
LABELS = ("Task", "Type", "From and to", "State")
SHOWN = [column for column in tasks_cells.COLUMNS if column.label in LABELS]
HEADINGS = [
    *({"label": column.label, "narrow": column.narrow} for column in SHOWN),
    {"label": "When, and how long", "narrow": False},
]


def rows(above: Sequence[Task], task: Task, parts: Sequence[Task]) -> list[dict[str, Any]]:
    """The topmost first; the parts in the order in which they were asked for."""
    shown = [*enumerate(above), (len(above), task), *((len(above) + 1, part) for part in parts)]
    now = timezone.now()
    begin = min(one.created_at for _, one in shown)
    end = max(one.completed_at or now for _, one in shown)
    return [_row(one, depth, is_it=one is task, axis=(begin, end, now)) for depth, one in shown]


def _row(task: Task, depth: int, *, is_it: bool, axis: tuple[datetime, datetime, datetime]) -> dict[str, Any]:
    drawn = tasks_cells.drawn(task)
    name, *others = [{"html": column.cell(task), "narrow": column.narrow} for column in SHOWN]
    name["html"] = format_html(
        "{}{}", SafeString(DEEPER * depth), format_html(IT, name["html"]) if is_it else name["html"]
    )
    bar = {"html": _bar(task, *axis), "narrow": False}
    return {**drawn, "url": "" if is_it else drawn["url"], "cells": [name, *others, bar]}


def _bar(task: Task, begin: datetime, end: datetime, now: datetime) -> SafeString:
    whole = max((end - begin).total_seconds(), 0.001)
    left = min(99.0, 100 * (task.created_at - begin).total_seconds() / whole)
    width = max(1.0, 100 * ((task.completed_at or now) - task.created_at).total_seconds() / whole)
    return format_html(
        '<svg class="gh-axis gh-axis--{}" viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden="true" '
        'focusable="false"><rect x="{}" y="0" width="{}" height="6"></rect></svg>'
        '<span class="gh-nowrap">{}</span>',
        tasks_cells.standing(task).tone.value, f"{left:.2f}", f"{width:.2f}", tasks_cells.took(task),
    )  # fmt: skip
