"""How one run is written in a line: the same in lists, on its agent's page and on its identity's."""

from datetime import datetime, timedelta
from typing import Any

from django.db.models import OuterRef, QuerySet, Subquery
from django.db.models.functions import Coalesce
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString

from common.console import badges, times
from common.console.badges import Badge
from common.console.lists import Column
from common.templatetags.console import badge, spell_invisible
from nhi.console import columns
from supervisor.admin import executions_starters
from supervisor.choices import ErrorCategory
from supervisor.models import Attempt, Execution

#: Columns of a run that its line does not show, some of them long.
NOT_SHOWN = ("input", "parameters", "sealed_input", "context", "working_directory", "input_mark")


def with_first_start(rows: QuerySet[Execution]) -> QuerySet[Any]:
    """When its first attempt began, for a later one moves its own start on; and who is behind it."""
    first = Attempt.objects.filter(execution=OuterRef("pk"), attempt=1).values("start_time")[:1]
    begun = rows.defer(*NOT_SHOWN).annotate(first_start=Coalesce(Subquery(first), "start_time"))
    return executions_starters.known(begun)


def standing(run: Execution) -> Badge:
    """Where it is, or what came of it; one that is asked to end and has not says so."""
    found = badges.find("supervisor.ExecutionState", run.outcome)
    asked = run.cancel_requested_at is not None and run.status is None
    return badges.find("supervisor.ExecutionState", "cleanup").saying("Stopping") if asked else found


def state(run: Execution) -> SafeString:
    """Marked while it may change, so that an open page can ask for it again."""
    category = format_html(' <span class="gh-subtle">{}</span>', said_category(run)) if run.error_category else ""
    live = format_html(' data-run-state="{}"', run.pk) if run.status is None else ""
    return format_html("<span{}>{}{}</span>", live, badge(standing(run)), category)


def said_category(run: Execution) -> str:
    return ErrorCategory(run.error_category).label if run.error_category else ""


def state_text(run: Execution) -> str:
    return ", ".join(part for part in (standing(run).label, said_category(run)) if part)


def why(run: Execution) -> str:
    """What went wrong, or who ended it."""
    if run.error_message or not run.cancel_requested_at:
        return run.error_message
    return f"{run.cancelled_by_name}: {run.cancel_reason}"


def _why(run: Execution) -> SafeString:
    said = spell_invisible(why(run))
    return format_html('<span class="gh-why gh-subtle" title="{}">{}</span>', said[:500], said[:120])


def was_masked(run: Execution) -> bool:
    """Whether its input is not shown as it was given."""
    return len(run.input.encode(errors="replace")) != run.input_bytes


def span(lasted: timedelta) -> str:
    """`4 ms`, `1.2 s`, `04:05`, `1:02:03`."""
    seconds = max(0.0, lasted.total_seconds())
    if seconds < 60:
        return times.lasted(seconds * 1000)
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes:02}:{rest:02}"


def waited(run: Any) -> str:
    return span((_began(run) or run.end_time or timezone.now()) - run.created_at)


def took(run: Any) -> str:
    began = _began(run)
    return span((run.end_time or timezone.now()) - began) if began else ""


def attempts(run: Execution) -> str:
    """Of how many there may be, where there may be another or there was one."""
    more = run.retry_count or (run.status is None and run.max_retries)
    return f"{run.retry_count + 1} of {run.max_retries + 1}" if more else "1"


def _began(run: Any) -> datetime | None:
    found: datetime | None = getattr(run, "first_start", run.start_time)
    return found


COLUMNS = (
    Column("Run", str, str, narrow=True),
    Column("State", state, state_text, narrow=True),
    Column("Why", _why, why),
    Column("Started by", executions_starters.cell, executions_starters.text),
    columns.moment("Asked for", lambda run: run.created_at, narrow=True),
    columns.plain("Waited", waited),
    columns.plain("Took", took),
    columns.plain("Attempts", attempts),
)  # fmt: skip


def drawn(run: Any, url: str) -> dict[str, Any]:
    """A row of a table that stands on another page."""
    cells = [{"html": column.cell(run), "narrow": column.narrow} for column in COLUMNS]
    return {"id": str(run.pk), "name": str(run), "url": url, "cells": cells}


HEADINGS = [{"label": column.label, "narrow": column.narrow} for column in COLUMNS]
