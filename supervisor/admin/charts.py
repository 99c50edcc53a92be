"""The charts of runs, on Home and on an agent's page: does it fail more, does it take longer?"""

from typing import Any

from django.db.models import QuerySet
from django.http import HttpRequest

from common.console import navigation
from common.console.charts import Chart, ChartRange, get_chosen_range, range_tabs
from common.console.pages import Crumb, link
from mcp.admin.home import charts as charts_of_calls
from nhi.admin import home
from nhi.console.base import ActorPage
from nhi.console.request_actor import may
from supervisor.admin import charts_data, charts_draw
from supervisor.models import Agent, Execution

RIGHT = "supervisor.view_execution"


def drawn(rows: QuerySet[Execution], chosen: ChartRange, *, agent: str = "") -> list[Chart]:
    """None where nothing has run in the range; how long runs take is said of one agent alone."""
    bars = charts_data.outcomes(rows, chosen)
    found = [charts_draw.outcomes(bars, chosen, agent)] if any(bar.total for bar in bars) else []
    last = charts_data.last_ones(rows) if agent else []
    return [*found, charts_draw.durations(last)] if last else found


class Charts(ActorPage):
    """Stands alone; Home fetches it as a part, so that its own facts need not wait for this."""

    template = "admin/supervisor/charts/page.html"
    title = "Runs in charts"
    actor_may = RIGHT

    def context(self) -> dict[str, Any]:
        chosen = get_chosen_range(self.request)
        rows = Execution.objects.visible_to(self.actor)
        return {
            "title": self.title,
            "crumb": Crumb("Home", link("index")),
            "range": chosen,
            "ranges": range_tabs(chosen, link("run_charts")),
            "charts": drawn(rows, chosen),
        }


def on_home(request: HttpRequest) -> dict[str, Any] | None:
    """Only where they stand; nothing at all in a house that runs no agents."""
    if not may(request, RIGHT) or not Agent.objects.exists():
        return None
    chosen = get_chosen_range(request)
    alone = not charts_of_calls.sees_calls(request)
    return {"url": f"{link('run_charts')}?range={chosen.key}", "alone": alone}


navigation.add_site_page("runs/charts/", Charts.as_view(), "run_charts")
home.add(home.Part("admin/supervisor/charts/home.html", on_home))
