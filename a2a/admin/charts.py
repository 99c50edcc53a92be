"""The charts of tasks, on Home and below their lists: does work pile up, how old is it, do callers hear of its end?"""

from typing import Any

from django.http import HttpRequest

from a2a.admin import charts_data, charts_draw
from a2a.models import Delivery, Task
from common.console import navigation
from common.console.charts import Chart, ChartRange, get_chosen_range, range_tabs
from common.console.pages import Crumb, link
from common.errors import NotFound
from mcp.admin.home import charts as charts_of_calls
from nhi.actors import Actor
from nhi.admin import home
from nhi.console.base import ActorPage
from nhi.console.request_actor import actor_of

TASKS, DELIVERIES = "tasks", "deliveries"
RIGHTS = {TASKS: "a2a.view_task", DELIVERIES: "a2a.view_delivery"}


def readable(actor: Actor) -> list[str]:
    """Of what a person may see the whole."""
    return [part for part, right in RIGHTS.items() if actor.may(right)]


class Charts(ActorPage):
    """Stands alone; Home and the lists fetch it as a part, so that their own facts need not wait for this."""

    template = "admin/a2a/charts/page.html"
    title = "Tasks in charts"

    def check(self) -> None:
        if not readable(self.actor):
            raise NotFound

    def context(self) -> dict[str, Any]:
        chosen = get_chosen_range(self.request)
        only = self.request.GET.get("only", "")
        shown = [part for part in readable(self.actor) if only in ("", part)]
        return {
            "title": self.title,
            "crumb": Crumb("Home", link("index")),
            "range": chosen,
            "ranges": range_tabs(chosen, link("a2a_charts"), query=f"&only={only}" if only in DRAWN else ""),
            "charts": [chart for part in shown for chart in DRAWN[part](chosen)],
            "whole_url": f"{link('a2a_charts')}?range={chosen.key}",
        }


def _of_tasks(chosen: ChartRange) -> list[Chart]:
    """None where nothing was sent in the range and nothing is open."""
    bars, ages = charts_data.flow(Task.objects.all(), chosen), charts_data.ages(Task.objects.all())
    found = [charts_draw.flow(bars, chosen)] if any(bar.of("sent") for bar in bars) else []
    return [*found, charts_draw.ages(ages)] if any(sum(by.values()) for by in ages.values()) else found


def _of_deliveries(chosen: ChartRange) -> list[Chart]:
    bars = charts_data.heard(Delivery.objects.all(), chosen)
    return [charts_draw.told(bars, chosen)] if any(bar.counts for bar in bars) else []


DRAWN = {TASKS: _of_tasks, DELIVERIES: _of_deliveries}


def on_home(request: HttpRequest) -> dict[str, Any] | None:
    """Only where they stand; nothing at all in a house where nobody has sent a task."""
    if not readable(actor_of(request)) or not Task.objects.exists():
        return None
    chosen = get_chosen_range(request)
    return {"url": f"{link('a2a_charts')}?range={chosen.key}", "alone": not charts_of_calls.sees_calls(request)}


navigation.add_site_page("tasks/charts/", Charts.as_view(), "a2a_charts")
home.add(home.Part("admin/a2a/charts/home.html", on_home))
