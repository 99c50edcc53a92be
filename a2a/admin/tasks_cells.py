"""How one task is written in a line: the same in the list, among the parts of another and on its agent's page."""

from typing import Any

from django.db.models import QuerySet
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString

from a2a.models import Task
from common.console import badges
from common.console.badges import Badge
from common.console.lists import Column
from common.console.pages import link
from common.templatetags.console import badge, icon, outside
from nhi.console import columns
from supervisor.admin import executions_cells

#: Columns of a task that its line does not show, some of them long.
NOT_SHOWN = (
    "input",
    "result",
    "metadata",
    "status_message",
    "allowed_by",
    "chain",
    "error_message",
    "cancel_reason",
    "lease_mark",
)
NOTHING = SafeString('<span class="gh-subtle">\u2013</span>')


def for_lines(rows: QuerySet[Any]) -> QuerySet[Any]:
    return rows.select_related("source").defer(*NOT_SHOWN)


def standing(task: Task) -> Badge:
    return badges.find("a2a.TaskState", task.state)


def state(task: Task) -> SafeString:
    """Marked while it may change, so that an open page can ask for it again."""
    live = format_html(' data-run-state="{}"', task.pk) if task.is_open else ""
    why = format_html(' <span class="gh-subtle">{}</span>', outside(task.error_code, 60)) if task.error_code else ""
    return format_html("<span{}>{}{}</span>", live, badge(standing(task)), why)


def state_text(task: Task) -> str:
    return ", ".join(part for part in (standing(task).label, task.error_code) if part)


def asked_by(task: Task) -> str:
    """In whose name it was sent."""
    return task.source.name if task.source is not None else task.created_by_name


def ways(task: Task) -> SafeString:
    between = format_html('{}<span class="gh-hidden"> to </span>', icon("arrow_forward"))
    return format_html('<span class="gh-ways">{} {} {}</span>', asked_by(task), between, task.agent_name)


def kind(task: Task) -> SafeString:
    return outside(task.task_type, 40) if task.task_type else NOTHING


def short_id(task: Task) -> SafeString:
    return format_html('<span class="gh-nowrap">{}</span>', task.short_id)


def took(task: Task) -> str:
    """Since it was sent; of an open one, so far."""
    lasted = executions_cells.span((task.completed_at or timezone.now()) - task.created_at)
    return f"{lasted} so far" if task.is_open else lasted


COLUMNS = (
    Column("Task", short_id, lambda task: str(task.pk), narrow=True),
    Column("Type", kind, lambda task: task.task_type),
    Column("From and to", ways, lambda task: f"{asked_by(task)} > {task.agent_name}", narrow=True),
    Column("State", state, state_text, narrow=True),
    columns.moment("Sent", lambda task: task.created_at, narrow=True),
    Column("Took", lambda task: format_html('<span class="gh-nowrap">{}</span>', took(task)), took),
    columns.moment("Deadline", lambda task: task.deadline, missing="none"),
    columns.plain("Claims", lambda task: task.claims),
)
HEADINGS = [{"label": column.label, "narrow": column.narrow} for column in COLUMNS]


def drawn(task: Task) -> dict[str, Any]:
    """A row of a table that stands on another page."""
    cells = [{"html": column.cell(task), "narrow": column.narrow} for column in COLUMNS]
    return {"id": str(task.pk), "name": str(task), "url": link("a2a_task_hub", task.pk), "cells": cells}
