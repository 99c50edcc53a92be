"""The charts of Home: is anything different, slow, driven by one, refused for one cause, near its end, or down?"""

from typing import Any

from django.http import HttpRequest

from common.console import navigation
from common.console.charts import (
    DEFAULT_RANGE,
    BarChart,
    ChartRange,
    StatusRow,
    get_chosen_range,
    range_tabs,
)
from common.console.pages import Crumb, link
from common.errors import NotFound
from mcp.admin.home import chart_builders, chart_data, limit_charts
from mcp.admin.home.chart_data import Source
from nhi.admin import home
from nhi.console.base import ActorPage
from nhi.console.request_actor import actor_of
from nhi.models import Identity


def sees_calls(request: HttpRequest) -> bool:
    """The whole log, or that of identities of one's own."""
    actor = actor_of(request)
    return actor.may("nhi.view_invocationlog") or Identity.objects.managed_by(actor).exists()


class Charts(ActorPage):
    """Stands alone; Home fetches it as a part, so that its own facts need not wait for these."""

    template = "admin/mcp/calls/charts.html"
    title = "Calls in charts"

    def check(self) -> None:
        if not sees_calls(self.request):
            raise NotFound

    def context(self) -> dict[str, Any]:
        span = get_chosen_range(self.request)
        source = Source(self.actor, span)
        bars = source.bars()
        made = any(bar.total for bar in bars)
        return {
            "title": self.title,
            "crumb": Crumb("Home", link("index")),
            "range": span,
            "ranges": range_tabs(span, link("charts")),
            "made": made,
            "last": None if made else source.last(),
            "charts": [chart_builders.calls(bars, span), chart_builders.latency(bars, span)] if made else [],
            "tops": _tops(source, span) if made else [],
            "burning": self._burning(),
            "health": self._health(),
        }

    def _burning(self) -> list[chart_builders.Burn]:
        return chart_builders.burning(limit_charts.near_their_end()) if self.actor.may("mcp.view_budget") else []

    def _health(self) -> list[StatusRow]:
        return chart_builders.cells(limit_charts.health(self.actor)) if self.actor.may("mcp.view_healthreport") else []


def _tops(source: chart_data.Source, span: ChartRange) -> list[BarChart]:
    agents, tools = source.tops()
    key = "" if span.key == DEFAULT_RANGE else span.key
    return [
        chart_builders.top("agent", "Which agents drive it?", agents, key),
        chart_builders.top("tool", "Which tools are called?", tools, key),
        chart_builders.reasons(source.reasons(), key),
    ]


def on_home(request: HttpRequest) -> dict[str, Any] | None:
    """Only where they stand: the numbers come when the page is there."""
    if not sees_calls(request):
        return None
    span = get_chosen_range(request)
    return {"url": f"{link('charts')}?range={span.key}", "ranges": range_tabs(span, link("index"))}


navigation.add_site_page("charts/", Charts.as_view(), "charts")
home.add(home.Part("admin/mcp/calls/charts_home.html", on_home))
