"""What waits for agents whose own workers take their tasks, and what those workers hold."""

from typing import Any

from django.db.models import Count, F, Min, Q, QuerySet
from django.db.models.functions import Now

from a2a import inbox
from a2a.admin import tasks_cells
from a2a.admin.tasks_filters import OFFERED, OPEN, WAITING, list_url
from a2a.choices import RuntimeKind, TaskState
from a2a.models import Task
from a2a.models.tasks import WAITS
from common.console import navigation
from nhi.console.base import ActorPage

MOST = 100
HELD = Q(state=TaskState.WORKING, lease_until__gte=Now())
LOST = Q(state=TaskState.WORKING, lease_until__lt=Now())
#: Nobody has it: it is new, or was answered by its caller.
NEW = Q(state=TaskState.SUBMITTED) | Q(state=TaskState.WORKING, lease_until=None)


class Inboxes(ActorPage):
    template = "admin/a2a/inboxes/page.html"
    title = "Inboxes"
    actor_may = "a2a.view_task"

    def context(self) -> dict[str, Any]:
        seen = Task.objects.visible_to(self.actor).open().filter(runtime_kind=RuntimeKind.INBOX)
        rows = list(_by_agent(seen)[: MOST + 1])
        held = tasks_cells.for_lines(seen.filter(HELD)).order_by("lease_until", "id")[: MOST + 1]
        leased = list(held)
        return {
            "title": self.title,
            "lead": "What waits for each agent, and what its workers have taken. A task that no worker brings back "
            f"in its time is offered again, at most {inbox.MOST_CLAIMS} times.",
            "rows": [{**row, **_links(row["agent_name"])} for row in rows[:MOST]],
            "leased": leased[:MOST],
            "most_claims": inbox.MOST_CLAIMS,
            "unshown": {"agents": len(rows) > MOST, "leased": len(leased) > MOST},
            "most": MOST,
        }


def _by_agent(rows: QuerySet[Any]) -> QuerySet[Any]:
    """What nobody works on first, the longest waiting at the top."""
    counted: QuerySet[Any] = (
        rows.order_by()
        .values("agent_id", "agent_name")
        .annotate(
            offered=Count("pk", filter=NEW | LOST),
            since=Min("created_at", filter=NEW | LOST),
            held=Count("pk", filter=HELD),
            lost=Count("pk", filter=LOST),
            ends=Min("lease_until", filter=HELD),
            waits=Count("pk", filter=Q(state__in=WAITS)),
            all=Count("pk"),
        )
        .order_by(F("since").asc(nulls_last=True), "agent_name")
    )
    return counted


def _links(agent: str) -> dict[str, str]:
    return {
        "offered_url": list_url(agent=agent, state=OFFERED),
        "waits_url": list_url(agent=agent, state=WAITING),
        "all_url": list_url(agent=agent, state=OPEN),
    }


navigation.add_site_page("tasks/inboxes/", Inboxes.as_view(), "a2a_inboxes")
