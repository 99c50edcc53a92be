"""What this app adds to the frame of the console: sidebar, what needs a person, names in sentences.

Addresses are names here and are looked up when a page is drawn: the site's own are made of these modules.
"""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from django.db.models import Q, QuerySet
from django.db.models.functions import Now
from django.http import HttpRequest

from common.console import navigation
from common.console.navigation import SidebarItem
from nhi.actors import Actor
from nhi.console import attention_counts, event_sentences
from nhi.console.attention_counts import AttentionItem
from nhi.console.request_actor import may
from nhi.models import Identity
from supervisor.admin import executions_seen
from supervisor.admin.executions_filters import WENT_WRONG, WRONG
from supervisor.admin.schedules_filters import by_missed
from supervisor.models import Execution, Schedule

LATELY = timedelta(hours=24)
FAILED_QUERY, MISSED_QUERY = f"state={WRONG}&span=24h&seen=no", "missed=24h"


def _who(right: str) -> Callable[[HttpRequest], bool]:
    return lambda request: may(request, right)


def failed_lately(actor: Actor) -> QuerySet[Any]:
    """Runs of the last 24 hours that went wrong and that one has not seen: all for who runs agents, else one's own."""
    if actor.only_reads:
        return Execution.objects.none()
    lately = Execution.objects.filter(status__in=WENT_WRONG, created_at__gt=Now() - LATELY)
    wrong = executions_seen.unseen(actor, lately)
    if actor.may("supervisor.run_agent"):
        return wrong
    managed = Identity.objects.managed_by(actor).values("pk")
    return wrong.filter(Q(started_by_id=actor.id) | Q(identity_id__in=managed))


def missed_lately(actor: Actor) -> QuerySet[Any]:
    """Schedules that missed a time in the last 24 hours and that one may work: all of them, or one's own agents'."""
    rows = Schedule.objects.kept()
    if actor.only_reads:
        return rows.none()
    mine = Identity.objects.managed_by(actor).values("pk")
    seen = rows if actor.may("supervisor.operate_schedule") else rows.filter(agent__identity__in=mine)
    return by_missed(seen, "24h")


navigation.add_sidebar_items(
    SidebarItem("Runs", "Agents", "smart_toy", "supervisor_agent_changelist", _who("supervisor.view_agent")),
    SidebarItem(
        "Runs", "Executions", "play_circle", "supervisor_execution_changelist", _who("supervisor.view_execution"),
        badge="runs_failed", counted=FAILED_QUERY,
    ),
    SidebarItem("Runs", "Sessions", "forum", "supervisor_session_changelist", _who("supervisor.view_session")),
    SidebarItem(
        "Runs", "Schedules", "schedule", "supervisor_schedule_changelist", _who("supervisor.view_schedule"),
        badge="schedules_missed", counted=MISSED_QUERY,
    ),
    SidebarItem("Runs", "Queue", "hourglass_empty", "supervisor_queue", _who("supervisor.view_execution")),
)  # fmt: skip
attention_counts.add_items(
    AttentionItem(
        "runs_failed",
        failed_lately,
        "{} run failed in the last 24 h, unseen by you",
        "{} runs failed in the last 24 h, unseen by you",
        "error",
        "supervisor_execution_changelist",
        FAILED_QUERY,
    ),
    AttentionItem(
        "schedules_missed",
        missed_lately,
        "{} schedule missed a time in the last 24 h",
        "{} schedules missed a time in the last 24 h",
        "schedule",
        "supervisor_schedule_changelist",
        MISSED_QUERY,
    ),
)
event_sentences.add_subject_pages({
    "agent": "supervisor_agent_hub", "execution": "supervisor_execution_hub", "schedule": "supervisor_schedule_hub",
    "session": "supervisor_session_page",
})  # fmt: skip
