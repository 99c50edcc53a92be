"""Operations on who is told of a task's events; all of them for the task's caller alone."""

from collections.abc import Mapping
from typing import Any

from a2a import pushing
from a2a.models import PushConfig, Task
from a2a.operations import faults, visits
from a2a.operations.visits import Visit
from common.errors import NotFound

Params = Mapping[str, Any]


def receiver(params: Params) -> tuple[str, str]:
    return params["url"], "url"


def create(visit: Visit, params: Params) -> dict[str, Any]:
    task = _own(visit, params)
    row = pushing.make(actor=visit.actor, task=task, asked=params, wire_version=visit.version)
    return pushing.told(row)


def get(visit: Visit, params: Params) -> dict[str, Any]:
    try:
        return pushing.told(pushing.find(_own(visit, params), params.get("id")))
    except NotFound as absent:
        raise faults.task_not_found() from absent


def listing(visit: Visit, params: Params) -> dict[str, Any]:
    """All of them: they are few."""
    rows = PushConfig.objects.filter(task=_own(visit, params)).order_by("created_at", "id")
    return {"configs": [pushing.told(row) for row in rows], "nextPageToken": ""}


def delete(visit: Visit, params: Params) -> dict[str, Any]:
    pushing.take_away(actor=visit.actor, task=_own(visit, params), config_id=params["id"])
    return {}


def _own(visit: Visit, params: Params) -> Task:
    """What a receiver shows for itself is told to nobody but who gave it."""
    task = visits.task(visit, params["taskId"])
    if not Task.objects.held_by(visit.actor).filter(pk=task.pk).exists():
        raise faults.task_not_found()
    return task
