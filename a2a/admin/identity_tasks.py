"""What an identity is asked to do, and what it asks of others: a tab of its page."""

from typing import Any

from a2a.admin import runtimes, tasks_cells, tasks_send
from a2a.admin.tasks_filters import list_url
from a2a.models import Task
from common.console import keyset, navigation
from common.console.pages import Tab
from nhi.admin.identities import hub
from nhi.admin.identities.hub import Added, Hub
from nhi.choices import Kind

TO, FROM = "to", "from"


class Tasks(Hub):
    tab = "tasks"
    template = "admin/a2a/tasks/of_identity.html"

    def context(self) -> dict[str, Any]:
        query, side = self.request.GET, self._side()
        column = "agent_id" if side == TO else "source_id"
        seen = Task.objects.visible_to(self.actor).filter(**{column: self.identity.pk})
        page = keyset.page(
            tasks_cells.for_lines(seen), time="created_at",
            before=query.get("before", ""), after=query.get("after", ""),
        )  # fmt: skip
        name = self.identity.name
        return {
            **super().context(),
            "runtime": runtimes.panel(self.actor, self.identity) if self.identity.kind == Kind.AGENT else None,
            "send": tasks_send.control(self.actor, self.identity) if side == TO else [],
            "sides": self._sides(side),
            "side": side,
            "keyset": page,
            "headings": tasks_cells.HEADINGS,
            "rows": [tasks_cells.drawn(task) for task in page.rows],
            "list_url": list_url(agent=name) if side == TO else list_url(**{"from": name}),
        }

    def _side(self) -> str:
        """Nobody sends a task to what is no agent."""
        is_agent = self.identity.kind == Kind.AGENT
        return TO if is_agent and self.request.GET.get("side") != FROM else FROM

    def _sides(self, side: str) -> list[Tab]:
        """One at a time: each has an index of its own, which goes by time."""
        if self.identity.kind != Kind.AGENT:
            return []
        words = ((TO, "It is asked to do"), (FROM, "It asks of others"))
        return [Tab(label, f"?side={name}", current=name == side) for name, label in words]


navigation.add_site_page("nhi/identity/<uuid:pk>/tasks/", Tasks.as_view(), "nhi_identity_tasks")
hub.add_tab(Added("tasks", "Tasks", frozenset({Kind.AGENT, Kind.SERVICE_ACCOUNT})))
