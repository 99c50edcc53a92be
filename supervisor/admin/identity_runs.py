"""What runs as an identity: a tab of its page."""

from typing import Any

from common.console import keyset, navigation
from common.console.pages import Control, link
from nhi.admin.identities import hub
from nhi.admin.identities.hub import Added, Hub
from nhi.choices import Kind
from nhi.console.request_actor import may_change
from supervisor.admin import agents_cells, executions_cells
from supervisor.models import Agent, Execution

MOST = 50


class Runs(Hub):
    tab = "runs"
    template = "admin/supervisor/executions/of_identity.html"

    def context(self) -> dict[str, Any]:
        query = self.request.GET
        runs = Execution.objects.visible_to(self.actor).filter(identity_id=self.identity.pk)
        page = keyset.page(
            executions_cells.with_first_start(runs), time="created_at",
            before=query.get("before", ""), after=query.get("after", ""),
        )  # fmt: skip
        return {
            **super().context(),
            "agents": [(agent, agents_cells.switch(agent)) for agent in self._agents()],
            "add": self._add(),
            "keyset": page,
            "headings": executions_cells.HEADINGS,
            "rows": [executions_cells.drawn(run, link("supervisor_execution_hub", run.pk)) for run in page.rows],
        }

    def _agents(self) -> list[Agent]:
        seen = Agent.objects.visible_to(self.actor).filter(identity_id=self.identity.pk)
        return list(seen.only("name", "enabled").order_by("name")[:MOST])

    def _add(self) -> Control | None:
        if not may_change(self.request, "supervisor.add_agent"):
            return None
        url = f"{link('supervisor_agent_add')}?identity={self.identity.pk}"
        return Control("Add program or model", url, "add", dialog=False)


navigation.add_site_page("nhi/identity/<uuid:pk>/runs/", Runs.as_view(), "nhi_identity_runs")
hub.add_tab(Added("runs", "Runs", frozenset({Kind.AGENT})))
