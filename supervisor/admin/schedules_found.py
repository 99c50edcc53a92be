"""What the palette finds of schedules, and the verbs on them."""

from collections.abc import Iterable

from common.console.command_palette import Group, Hit
from common.console.pages import link
from nhi.actors import Actor
from supervisor.models import Schedule
from supervisor.schedules import rights as schedule_rights

#: Words that begin a verb, with the page that it is.
VERBS = {"pause": "pause", "resume": "resume"}


def groups(actor: Actor, schedules: list[Schedule], page: str) -> Iterable[Group]:
    """Of those that were found by name, with the verb that was typed before it, if one was."""
    if page and actor.may(schedule_rights.OPERATE) and not actor.only_reads:
        able = [schedule for schedule in schedules if (schedule.paused_at is None) == (page == "pause")]
        yield Group("Schedule verbs", [_verb(page, schedule) for schedule in able])
    yield Group("Schedules", [_hit(schedule) for schedule in schedules])


def _verb(page: str, schedule: Schedule) -> Hit:
    return Hit(f"{page.capitalize()} {schedule}…", link(f"supervisor_schedule_{page}", schedule.pk), f"{page}_circle")


def _hit(schedule: Schedule) -> Hit:
    said = "Active" if schedule.active else "Paused" if schedule.paused_at else "Not in use"
    return Hit(schedule.name, link("supervisor_schedule_hub", schedule.pk), "schedule", f"Schedule, {said.lower()}")
