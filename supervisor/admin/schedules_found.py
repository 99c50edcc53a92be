"""What the palette finds of schedules, and the verbs on them."""

from collections.abc import Iterable

from django.db.models import Case, IntegerField, Value, When
from django.http import HttpRequest

from common.admin import palette
from common.admin.pages import link
from common.admin.palette import PER_GROUP, Group, Hit
from nhi.admin.acting import actor_of
from supervisor import schedule_rights
from supervisor.models import Schedule

#: Words that begin a verb, with the page that it is.
VERBS = {"pause": "pause", "resume": "resume"}


def find(request: HttpRequest, term: str) -> Iterable[Group]:
    actor = actor_of(request)
    first, _, rest = term.partition(" ")
    page = VERBS.get(first.lower(), "")
    word = rest.strip() if page else term
    begins = When(name__istartswith=word, then=Value(0))
    rank = Case(begins, default=Value(1), output_field=IntegerField())
    seen = Schedule.objects.visible_to(actor).kept().filter(name__icontains=word)
    rows = list(seen.only("name", "paused_at", "enabled", "removed_at").order_by(rank, "name")[:PER_GROUP])
    if page and actor.may(schedule_rights.OPERATE) and not actor.only_reads:
        yield Group(
            "Schedule verbs", [_verb(page, row) for row in rows if (row.paused_at is None) == (page == "pause")]
        )
    yield Group("Schedules", [_hit(row) for row in rows])


def _verb(page: str, schedule: Schedule) -> Hit:
    return Hit(f"{page.capitalize()} {schedule}…", link(f"supervisor_schedule_{page}", schedule.pk), f"{page}_circle")


def _hit(schedule: Schedule) -> Hit:
    said = "Active" if schedule.active else "Paused" if schedule.paused_at else "Not in use"
    return Hit(schedule.name, link("supervisor_schedule_hub", schedule.pk), "schedule", f"Schedule, {said.lower()}")


palette.add(find)
