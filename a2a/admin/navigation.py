"""What this app adds to the frame of the console: sidebar, what needs a person, names in sentences."""

from datetime import timedelta
from typing import Any

from django.db.models import Q, QuerySet
from django.db.models.functions import Now
from django.http import HttpRequest

from a2a import access, deliveries
from a2a.admin.deliveries_filters import DEAD
from a2a.admin.tasks_filters import WAITING, WENT_WRONG, WRONG
from a2a.choices import DeliveryState
from a2a.models import Delivery, Task
from common.console import navigation
from common.console.navigation import SidebarItem
from nhi.actors import Actor
from nhi.console import attention_counts, event_sentences
from nhi.console.attention_counts import AttentionItem
from nhi.console.request_actor import may
from nhi.models import Identity

LATELY = timedelta(hours=24)
NEEDED = f"needs=me&state={WAITING}"
FAILED_QUERY, DEAD_QUERY = f"state={WRONG}&span=24h", f"state={DEAD}"


def _reads(request: HttpRequest) -> bool:
    return may(request, "a2a.view_task")


def _reads_cards(request: HttpRequest) -> bool:
    return may(request, "a2a.view_agentcard")


def waiting_for(actor: Actor) -> QuerySet[Any]:
    """Open tasks that go on when this person, or an identity of theirs, has said more or signed in."""
    return Task.objects.waiting().answerable_by(actor)


def failed_lately(actor: Actor) -> QuerySet[Any]:
    """Tasks of the last 24 hours that went wrong: all for who sends any, else what one or one's own have to do with."""
    wrong = Task.objects.filter(state__in=WENT_WRONG, created_at__gt=Now() - LATELY)
    if actor.only_reads:
        return wrong.none()
    if actor.may(access.SEND):
        return wrong
    managed = Identity.objects.managed_by(actor).values("pk")
    return wrong.filter(Q(created_by_id=actor.id) | Q(source_id__in=managed) | Q(agent_id__in=managed))


def dead_letters(actor: Actor) -> QuerySet[Any]:
    """Callbacks that were given up and that one may have delivered again."""
    dead = Delivery.objects.filter(state=DeliveryState.DEAD)
    if actor.only_reads:
        return dead.none()
    return dead if actor.may(deliveries.RIGHT) else dead.held_by(actor)


navigation.add_sidebar_items(
    SidebarItem("Tasks", "Tasks", "task", "a2a_task_changelist", _reads, badge="tasks_waiting", counted=NEEDED),
    SidebarItem("Tasks", "Inboxes", "inbox", "a2a_inboxes", _reads),
    SidebarItem("Tasks", "Cards and endpoints", "badge", "a2a_agentcard_changelist", _reads_cards),
    SidebarItem(
        "Tasks", "Deliveries", "outgoing_mail", "a2a_delivery_changelist",
        lambda request: may(request, "a2a.view_delivery"), badge="dead_letters", counted=DEAD_QUERY,
        also=("a2a_webhooksecret_changelist",),
    ),
)  # fmt: skip
attention_counts.add_items(
    AttentionItem(
        "tasks_waiting",
        waiting_for,
        "{} task needs input or sign-in",
        "{} tasks need input or sign-in",
        "task",
        "a2a_task_changelist",
        NEEDED,
    ),
    AttentionItem(
        "tasks_failed",
        failed_lately,
        "{} task failed in the last 24 h",
        "{} tasks failed in the last 24 h",
        "error",
        "a2a_task_changelist",
        FAILED_QUERY,
    ),
    AttentionItem(
        "dead_letters",
        dead_letters,
        "{} dead letter: a callback that nobody took",
        "{} dead letters: callbacks that nobody took",
        "outgoing_mail",
        "a2a_delivery_changelist",
        DEAD_QUERY,
    ),
)
event_sentences.add_subject_pages({"task": "a2a_task_hub", "delivery": "a2a_delivery_hub"})
