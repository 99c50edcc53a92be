"""What this app adds to the frame of the console: sidebar, what needs a person, names in sentences."""

from typing import Any

from django.db.models import QuerySet
from django.http import HttpRequest

from a2a.admin.tasks_filters import WAITING, needs
from a2a.models import Task
from common.admin import navigation
from common.admin.navigation import Item
from nhi.actors import Actor
from nhi.admin import counts, sentences
from nhi.admin.acting import may
from nhi.admin.counts import Need

NEEDED = f"needs=me&state={WAITING}"


def _reads(request: HttpRequest) -> bool:
    return may(request, "a2a.view_task")


def _reads_cards(request: HttpRequest) -> bool:
    return may(request, "a2a.view_agentcard")


def waiting_for(actor: Actor) -> QuerySet[Any]:
    """Open tasks that go on when this person, or an identity of theirs, has said more or signed in."""
    return Task.objects.none() if actor.only_reads else Task.objects.open().filter(needs(actor))


navigation.add(
    Item("Tasks", "Tasks", "task", "a2a_task_changelist", _reads, badge="tasks_waiting", counted=NEEDED),
    Item("Tasks", "Inboxes", "inbox", "a2a_inboxes", _reads),
    Item("Tasks", "Cards and endpoints", "badge", "a2a_agentcard_changelist", _reads_cards),
)
counts.add(
    Need(
        "tasks_waiting",
        waiting_for,
        "{} task needs input or sign-in",
        "{} tasks need input or sign-in",
        "task",
        "a2a_task_changelist",
        NEEDED,
    )
)
sentences.add_hubs({"task": "a2a_task_hub"})
