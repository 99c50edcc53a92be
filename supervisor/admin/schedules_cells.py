"""How a schedule is written: its rule in words, its policies as sentences, its due times on their clock."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from django.utils.html import format_html
from django.utils.safestring import SafeString

from common.console import badges, times
from common.console.badges import Badge
from common.console.lists import Column
from common.console.pages import link
from common.templatetags.console import badge, when
from nhi.console import columns
from supervisor.choices import MisfirePolicy, OverlapPolicy
from supervisor.models import Schedule
from supervisor.schedules import cron
from supervisor.schedules import facts as schedule_facts
from supervisor.schedules.due_times import MOST_OWED

MISFIRE = {
    MisfirePolicy.SKIP: "It is recorded, and not made up for.",
    MisfirePolicy.ONCE: "Each is recorded; one run makes up for all of them, for the latest.",
    MisfirePolicy.ALL: f"Each is recorded and has a run of its own, for the last {MOST_OWED} of them.",
}
OVERLAP = {
    OverlapPolicy.SKIP: "The due time is skipped.",
    OverlapPolicy.QUEUE: f"Its run waits for the one before; {MOST_OWED} may wait.",
    OverlapPolicy.ALLOW: "Its run begins beside the other, as far as the agent has slots, and waits in its queue.",
}
#: What a clock does on a day that is longer or shorter than others.
UNUSUAL = "The clock changes on this day."


@dataclass(frozen=True)
class DueTime:
    at: datetime
    #: As the clock of the schedule's zone shows it.
    local: str
    unusual: bool


def due_time(moment: datetime, zone: ZoneInfo) -> DueTime:
    local = moment.astimezone(zone)
    return DueTime(moment, f"{local:%a} {local.day} {local:%b %Y, %H:%M %Z}", cron.is_unusual(moment, zone))


def next_due(schedule: Schedule) -> SafeString:
    idle = schedule_facts.why_idle(schedule)
    return by_its_clock(schedule, schedule_facts.next_execution(schedule), f"none: {idle}" if idle else "none")


def by_its_clock(schedule: Schedule, moment: datetime | None, missing: str) -> SafeString:
    """By the clock that its rule is about, which need not be that of who looks."""
    if moment is None:
        return format_html('<span class="gh-subtle">{}</span>', missing)
    return format_html("{}, {}", when(moment), due_time(moment, schedule_facts.clock(schedule)).local)


def standing(schedule: Schedule, *, runs: bool) -> Badge:
    if schedule.removed_at:
        return badges.find("supervisor.ScheduleState", "created").saying("Removed")
    return badges.of(schedule_facts.state(schedule, runs=runs))


def rule(schedule: Schedule) -> str:
    return f"{schedule_facts.words(schedule)}, {schedule.timezone}"


def _state(row: Any) -> Badge:
    return standing(row, runs=row.runs)


def _last(row: Any) -> SafeString:
    """What became of its last due time; the rest of them are on its page."""
    if not row.last_fire_state:
        return format_html('<span class="gh-subtle">{}</span>', "not due yet")
    drawn = badge(row.last_fire_state, "supervisor.FireState")
    return format_html('{} <span class="gh-subtle gh-wide">{}</span>', drawn, when(row.last_due))


def _next_stamp(row: Any) -> str:
    moment = schedule_facts.next_execution(row)
    return times.stamp(moment) if moment else ""


def _agent(row: Any) -> SafeString:
    return format_html('<a href="{}">{}</a>', link("supervisor_agent_hub", row.agent_id), row.agent.name)


COLUMNS = (
    Column("Name", lambda row: row.name, str, "name", narrow=True),
    columns.state("State", _state, lambda row: badge(_state(row)), narrow=True),
    columns.plain("When", rule),
    Column("Next", next_due, _next_stamp, "next_execution", narrow=True),
    Column("Last due time", _last, lambda row: row.last_fire_state or ""),
    Column("Agent", _agent, lambda row: row.agent.name, "agent__name"),
    columns.plain("If missed", lambda row: MisfirePolicy(row.misfire_policy).label),
    columns.plain("If still running", lambda row: OverlapPolicy(row.overlap_policy).label),
)  # fmt: skip
