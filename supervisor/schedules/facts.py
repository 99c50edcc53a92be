"""What is known of a schedule: its input, its state in seed 001's words, when it is due."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

from django.utils import timezone

from common import crypto
from common.errors import Conflict
from common.redaction import Redactor
from nhi.choices import State
from supervisor import agents, sealing
from supervisor.choices import Mode, ScheduleState
from supervisor.models import Execution, Schedule
from supervisor.schedules import clock as schedule_clock
from supervisor.schedules import cron, due_times
from supervisor.schedules.cron import BadZone

#: What whoever sets a schedule up says of it, besides its input.
DESCRIBED = ("name", "agent", "cron_expression", "timezone", "enabled", "misfire_policy", "overlap_policy")
NEXT = 5


class InputUnreadable(Conflict):
    """It was sealed with a key that is gone, or changed since."""

    code = "input_unreadable"

    def __init__(self) -> None:
        super().__init__("Its input cannot be read any more. Give it again.")


def state(schedule: Schedule, *, runs: bool) -> ScheduleState:
    """`runs`: a run of it is not done. One that is switched off was paused, or has never been in use."""
    if runs:
        return ScheduleState.EXECUTING
    if schedule.active:
        return ScheduleState.ACTIVE
    return ScheduleState.PAUSED if schedule.paused_at or schedule.last_execution else ScheduleState.CREATED


def running(schedules: Sequence[Schedule]) -> set[UUID]:
    """The ids of those of which a run is not done."""
    ids = [schedule.pk for schedule in schedules]
    found = Execution.objects.open().filter(schedule_id__in=ids).values_list("schedule_id", flat=True)
    return {schedule_id for schedule_id in found if schedule_id is not None}


def next_due(schedule: Schedule) -> datetime | None:
    """The first due time from now on; None while it does not fire."""
    if not schedule.active:
        return None
    rule, zone = due_times.parsed(schedule.cron_expression), cron.zone(schedule.timezone)
    return due_times.after(rule, zone, schedule_clock.now())


def next_execution(schedule: Schedule) -> datetime | None:
    """Return the next time at which it fires; None while it does not fire."""
    return None if why_idle(schedule) else schedule.next_execution


def why_idle(schedule: Schedule) -> str:
    """Return why it does not fire now, as a clause: `its agent is switched off`. Empty while it fires.

    While only its agent is in the way, its due times still come, and each is recorded as skipped.
    """
    agent, identity = schedule.agent, schedule.agent.identity
    expired = identity.expires_at is not None and identity.expires_at <= timezone.now()
    reasons = {
        "it was removed": schedule.removed_at is not None,
        "it is paused": schedule.paused_at is not None,
        "it is not in use": not schedule.enabled,
        "its time zone does not exist any more": bool(problem(schedule)),
        "its agent is switched off": not agent.enabled,
        "its agent is interactive and runs no tasks": agent.mode != Mode.TASK,
        f"its identity is {State(identity.state).label.lower()}": identity.state != State.ACTIVE,
        "its identity is expired": expired,
    }
    return next((reason for reason, applies in reasons.items() if applies), "")


def upcoming(schedule: Schedule, *, now: datetime | None = None, count: int = NEXT) -> list[datetime]:
    """Return the next due times of its rule, whether or not it fires; none where nobody can tell them.

    Pass `now` to read the clock once for many schedules.
    """
    if problem(schedule):
        return []
    rule, zone = due_times.parsed(schedule.cron_expression), cron.zone(schedule.timezone)
    if schedule.next_execution is None:
        return due_times.upcoming(rule, zone, now or schedule_clock.now(), count)
    return [schedule.next_execution, *due_times.upcoming(rule, zone, schedule.next_execution, count - 1)]


def problem(schedule: Schedule) -> str:
    """Why nobody knows when it is due, as a sentence: zones come and go with the releases of their list."""
    try:
        cron.zone(schedule.timezone)
    except BadZone as error:
        return str(error)
    return ""


def clock(schedule: Schedule) -> ZoneInfo:
    """Whose time its due times are shown in."""
    return cron.zone("UTC" if problem(schedule) else schedule.timezone)


def words(schedule: Schedule) -> str:
    """Its rule as a person would say it."""
    return due_times.parsed(schedule.cron_expression).words()


def whole(inputs: Mapping[str, Any]) -> dict[str, Any]:
    return {"input": inputs.get("input", ""), "parameters": dict(inputs.get("parameters") or {})}


def opened(schedule: Schedule) -> dict[str, Any]:
    """What its runs are given, open: never kept in a row, a log line or a page."""
    try:
        found = sealing.unseal(schedule.sealed_input, table="schedule", row=schedule.pk, field="input")
    except crypto.UnsealError as error:
        raise InputUnreadable from error
    return whole(found or {})


def hides(schedule: Schedule) -> bool:
    """Whether something in its input is masked for whoever reads it."""
    return bool(schedule.input_parameters != opened(schedule))


def seal(schedule: Schedule, given: Mapping[str, Any]) -> None:
    """Keep its input encrypted, and beside it what may be shown of it."""
    redactor = Redactor(secret_values=agents.secret_values(schedule.agent, given))
    shown = redactor.redact_text(given["input"]).replace("\0", "\N{SYMBOL FOR NULL}")
    schedule.input_parameters = {"input": shown, "parameters": redactor.redact_value(given["parameters"])}
    schedule.sealed_input = sealing.seal(dict(given), table="schedule", row=schedule.pk, field="input")


def for_record(schedule: Schedule) -> dict[str, Any]:
    said = {name: getattr(schedule, name) for name in DESCRIBED if name != "agent"}
    return {**said, "agent": schedule.agent.name, "input_parameters": schedule.input_parameters}
