"""What the palette makes of the id of a task, whole or as people read it out: `T-8f3a21`."""

from collections.abc import Iterable
from typing import Any

from django.db.models import QuerySet
from django.http import HttpRequest

from a2a.admin import tasks_cells
from a2a.admin.tasks_filters import SHORT
from a2a.models import Task
from common.console import command_palette
from common.console.command_palette import PER_GROUP, Group, Hit
from common.console.pages import link
from common.ids import parse_uuid
from nhi.console.request_actor import actor_of

#: Among how many of the newest a short id is looked for: it is the end of an id, which no index knows.
RECENT = 5000


def find(request: HttpRequest, term: str) -> Iterable[Group]:
    found = _named(Task.objects.visible_to(actor_of(request)), term)
    if found is not None:
        yield Group("Tasks", [_hit(task) for task in found.defer(*tasks_cells.NOT_SHOWN)[:PER_GROUP]])


def _named(seen: QuerySet[Task], term: str) -> QuerySet[Any] | None:
    if known := parse_uuid(term.lower()):
        return seen.filter(pk=known)
    if short := SHORT.fullmatch(term):
        newest = Task.objects.order_by("-created_at", "-id").values("pk")[:RECENT]
        return seen.filter(pk__in=newest, pk__endswith=short[1].lower()).order_by("-created_at", "-id")
    return None


def _hit(task: Task) -> Hit:
    said = tasks_cells.standing(task).label
    return Hit(f"{task.short_id} for {task.agent_name}", link("a2a_task_hub", task.pk), "task", f"Task, {said.lower()}")


command_palette.add_palette_providers(find)
