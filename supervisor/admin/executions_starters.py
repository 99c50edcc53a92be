"""Who is behind a run that Gatehouse began: the sender of its task, or its schedule."""

from typing import Any

from django.db.models import OuterRef, QuerySet, Subquery
from django.db.models.fields.json import KT
from django.utils.html import format_html
from django.utils.safestring import SafeString

from common.ids import short_task_id
from supervisor.choices import Trigger
from supervisor.models import Schedule

#: As the end of "started by mara".
HOW = {
    Trigger.MANUAL: "by hand",
    Trigger.API: "by API",
    Trigger.SCHEDULE: "by a schedule",
    Trigger.SESSION: "in a session",
    Trigger.TASK: "for a task",
}


def known(rows: QuerySet[Any]) -> QuerySet[Any]:
    """With the names that `who` says, in the same question."""
    schedule = Schedule.objects.filter(pk=OuterRef("schedule_id")).values("name")[:1]
    named: QuerySet[Any] = rows.annotate(sent_by=KT("context__by__sent_by"), schedule_name=Subquery(schedule))
    return named


def who(run: Any) -> str:
    if run.trigger == Trigger.SCHEDULE and getattr(run, "schedule_name", None):
        return f"schedule {run.schedule_name}"
    if run.trigger == Trigger.TASK and getattr(run, "sent_by", None):
        return str(run.sent_by)
    return str(run.started_by_name)


def how(run: Any) -> str:
    """The end of the sentence that `who` begins."""
    if run.trigger == Trigger.TASK and run.task_id is not None:
        return f"by task {short_task_id(run.task_id)}"
    if run.trigger == Trigger.SCHEDULE and getattr(run, "schedule_name", None):
        return ""
    return HOW[Trigger(run.trigger)]


def cell(run: Any) -> SafeString:
    if run.trigger not in {Trigger.TASK, Trigger.SCHEDULE}:
        return format_html('{} <span class="gh-subtle">{}</span>', who(run), Trigger(run.trigger).label)
    if not (said := how(run)):
        return format_html("{}", who(run))
    return format_html('{}, <span class="gh-subtle">{}</span>', who(run), said)


def text(run: Any) -> str:
    if run.trigger not in {Trigger.TASK, Trigger.SCHEDULE}:
        return f"{who(run)}, {Trigger(run.trigger).label}"
    return ", ".join(filter(None, (who(run), how(run))))
