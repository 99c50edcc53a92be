"""All that a task is a part of and led to, one line each on one axis of time: tasks, runs, calls of tools."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString

from a2a import tracing
from a2a.admin import tasks_cells
from a2a.models import Task
from a2a.tracing import Step
from common.console import times
from common.console.pages import link
from common.templatetags.console import badge, icon, outside
from mcp.admin.calls import cells
from nhi.models import InvocationLog
from supervisor.admin import executions_cells
from supervisor.models import Execution

DEEPER = '<span class="gh-deeper" aria-hidden="true"></span>'
IT = '<strong aria-current="true">{}</strong>'
HEADINGS = [
    {"label": label, "narrow": narrow}
    for label, narrow in (("Step", True), ("From and to", True), ("State", True), ("When, and how long", False))
]
Axis = tuple[datetime, datetime, datetime]


def rows(steps: Sequence[Step], task: Task) -> list[dict[str, Any]]:
    """The topmost first, each under what it is a part of."""
    now = timezone.now()
    begin = min(tracing.began(step.row) for step in steps)
    end = max(_ended(step) or now for step in steps)
    return [_row(step, is_it=step.row.pk == task.pk, axis=(begin, end, now)) for step in steps]


def _row(step: Step, *, is_it: bool, axis: Axis) -> dict[str, Any]:
    row = step.row
    drawn = _task(row) if isinstance(row, Task) else _run(row) if isinstance(row, Execution) else _call(row, step.count)
    name, url, who, state = drawn
    told = format_html("{}{}", SafeString(DEEPER * step.depth), format_html(IT, name) if is_it else name)
    cells = zip((told, who, state, _bar(step, *axis)), HEADINGS, strict=True)
    return {
        "id": str(row.pk),
        "name": str(row),
        "url": "" if is_it else url,
        "cells": [{"html": html, "narrow": heading["narrow"]} for html, heading in cells],
    }


#: What it is, its page, between whom, and how it stands.
Drawn = tuple[SafeString, str, SafeString, SafeString]


def _task(task: Task) -> Drawn:
    words = format_html("{}{} {}", icon("task"), tasks_cells.short_id(task), tasks_cells.kind(task))
    return words, link("a2a_task_trace", task.pk), tasks_cells.ways(task), badge(tasks_cells.standing(task))


def _run(run: Execution) -> Drawn:
    words, who = format_html("{}{}", icon("play_circle"), str(run)), format_html("{}", run.identity_name)
    return words, link("supervisor_execution_hub", run.pk), who, badge(executions_cells.standing(run))


def _call(call: InvocationLog, count: int) -> Drawn:
    """Of several the first."""
    several = f" {count} calls" if count > 1 else ""
    words = format_html("{}{}{}", icon("build"), outside(cells.tool(call), 80), several)
    url, who = link("nhi_invocationlog_call", call.pk), format_html("{}", call.agent_name)
    return words, url, who, cells.outcome(call)


def _tone(step: Step) -> str:
    row = step.row
    if isinstance(row, Task):
        return tasks_cells.standing(row).tone.value
    found = executions_cells.standing(row) if isinstance(row, Execution) else cells.state(row)
    return found.tone.value


def _ended(step: Step) -> datetime | None:
    row = step.row
    if isinstance(row, InvocationLog):
        return step.ended
    return row.completed_at if isinstance(row, Task) else row.end_time


def _took(step: Step, until: datetime) -> str:
    row = step.row
    if isinstance(row, InvocationLog) and step.count == 1:
        return times.lasted(row.duration)
    return executions_cells.span(until - tracing.began(row))


def _bar(step: Step, begin: datetime, end: datetime, now: datetime) -> SafeString:
    began, until = tracing.began(step.row), _ended(step) or now
    whole = max((end - begin).total_seconds(), 0.001)
    left = min(99.0, 100 * (began - begin).total_seconds() / whole)
    width = max(1.0, 100 * (until - began).total_seconds() / whole)
    return format_html(
        '<svg class="gh-axis gh-axis--{}" viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden="true" '
        'focusable="false"><rect x="{}" y="0" width="{}" height="6"></rect></svg>'
        '<span class="gh-nowrap">{}</span>',
        _tone(step), f"{left:.2f}", f"{width:.2f}", _took(step, until),
    )  # fmt: skip
