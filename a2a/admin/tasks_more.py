"""What stands under More of a task: it as a command, and delivering again what nobody heard of it."""

import json
from typing import Any

from django.db.models import QuerySet
from django.utils import timezone

from a2a import deliveries
from a2a.admin import deliveries_bulk
from a2a.admin.deliveries_filters import UNHEARD, by_state
from a2a.models import Task
from common.console.pages import Control, link
from common.redaction import MASK
from common.templatetags.console import as_curl
from nhi.actors import Actor

#: Characters of an input that a command line still holds.
LONGEST = 20_000
API = "/api/nhi/a2a/tasks"


def unheard(actor: Actor, task: Task) -> QuerySet[Any]:
    """What was given up, of those that this person may have delivered again."""
    return by_state(deliveries_bulk.within_reach(actor, deliveries.RIGHT).filter(task_id=task.pk), UNHEARD)


def controls(actor: Actor, task: Task, *, told: int) -> list[Control]:
    """`told` is how many deliveries there are; of none nothing is said."""
    reading = Control("Copy as curl: read it", "", "terminal", copies=as_curl("GET", f"{API}/{task.pk}"))
    if actor.only_reads:
        return [reading]
    again = [_again(actor, task)] if told and deliveries_bulk.may_any(actor) else []
    return [reading, _sending(task), *again]


def _sending(task: Task) -> Control:
    label = "Copy as curl: send the same"
    if problem := _no_command(task):
        return Control(label, "", "terminal", blocked=problem)
    command = as_curl("POST", API, sent(task))
    masked = " (secrets are masked)" if MASK in command else ""
    return Control(f"{label}{masked}", "", "terminal", copies=command)


def _no_command(task: Task) -> str:
    """Why no command says the same."""
    if not isinstance(task.input, dict) or task.input.keys() == {"parts"}:
        return "It was sent over A2A in parts, which REST does not take."
    return "Its input is too long for a command." if len(json.dumps(task.input)) > LONGEST else ""


def sent(task: Task) -> dict[str, Any]:
    """What REST is given for the same again; what has passed since is left out."""
    in_its_name = task.source_id is not None and task.source_id != task.created_by_id
    within = task.parent is not None and task.parent.is_open
    later = task.deadline is not None and task.deadline > timezone.now()
    further = {
        "source_agent_id": str(task.source_id) if in_its_name else "",
        "parent_task_id": str(task.parent_id) if within else "",
        "deadline": task.deadline.isoformat().replace("+00:00", "Z") if later and task.deadline else "",
        "callback_url": task.callback_url,
    }
    body = {"target_agent_id": str(task.agent_id), "task_type": task.task_type, "input": task.input}
    return {**body, **{name: value for name, value in further.items() if value}}


def _again(actor: Actor, task: Task) -> Control:
    count = unheard(actor, task).count()
    said = f"Redeliver {count}…" if count else "Redeliver"
    blocked = "" if count else "Nothing that was told of it was given up."
    return Control(said, link("a2a_task_redeliver", task.pk), "replay", blocked=blocked)
