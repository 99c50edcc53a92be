"""The tabs of one schedule, each a page with its own queries."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

from django.urls import path

from common.console import badges, keyset
from common.console.pages import link
from common.ids import parse_uuid
from common.templatetags.console import spell_invisible
from nhi.console import event_sentences
from supervisor.admin import executions_cells, schedules_cells
from supervisor.admin.schedules_hub import Hub
from supervisor.choices import MisfirePolicy, OverlapPolicy
from supervisor.models import Execution, ScheduleFire
from supervisor.schedules import facts as schedule_facts

CELLS = 60


class Overview(Hub):
    tab = "hub"
    template = "admin/supervisor/schedules/overview.html"

    def context(self) -> dict[str, Any]:
        schedule = self.schedule
        last = list(schedule.fires.order_by("-due_at", "-id")[:CELLS])
        zone = schedule_facts.clock(schedule)
        return {
            **super().context(),
            "idle": schedule_facts.why_idle(schedule),
            "due": [schedules_cells.due_time(at, zone) for at in schedule_facts.upcoming(schedule)],
            "unusual": schedules_cells.UNUSUAL,
            "cells": [self._cell(fire) for fire in reversed(last)],
            "ends": [schedules_cells.due_time(fire.due_at, zone).local for fire in last[:: -max(1, len(last) - 1)]],
            "legend": _legend(last),
            "misfire": schedules_cells.MISFIRE[MisfirePolicy(schedule.misfire_policy)],
            "overlap": schedules_cells.OVERLAP[OverlapPolicy(schedule.overlap_policy)],
        }

    def _cell(self, fire: ScheduleFire) -> dict[str, Any]:
        """With the words for who does not see its colour; it leads to the line that says why."""
        shown = badges.find("supervisor.FireState", fire.state)
        local = schedules_cells.due_time(fire.due_at, schedule_facts.clock(self.schedule)).local
        words = f"{local}: {shown.label}{f', {spell_invisible(fire.reason)}' if fire.reason else ''}"
        url = f"{self.url('fires')}?before={fire.due_at.isoformat().replace('+', '%2B')}~{LAST}&fire={fire.pk}"
        return {"tone": shown.tone.value, "words": words, "url": f"{url}#fire-{fire.pk}"}


#: Behind every row of its moment: a page that begins with it.
LAST = "ffffffff-ffff-ffff-ffff-ffffffffffff"


def _legend(fires: Iterable[ScheduleFire]) -> list[tuple[str, str]]:
    """The tone of each kind of cell, and `57 fired`."""
    shown = Counter(badges.find("supervisor.FireState", fire.state) for fire in fires)
    return [(badge.tone.value, f"{count} {badge.label.lower()}") for badge, count in shown.items()]


class Fires(Hub):
    tab = "fires"
    template = "admin/supervisor/schedules/fires.html"

    def context(self) -> dict[str, Any]:
        query, zone = self.request.GET, schedule_facts.clock(self.schedule)
        page = keyset.page(
            self.schedule.fires.all(), time="due_at", before=query.get("before", ""), after=query.get("after", "")
        )
        runs = Execution.objects.visible_to(self.actor).filter(pk__in=[fire.execution_id for fire in page.rows])
        by_id = {run.pk: run for run in runs.defer(*executions_cells.NOT_SHOWN)}
        return {
            **super().context(),
            "keyset": page,
            "chosen": parse_uuid(query.get("fire", "")),
            "rows": [
                (fire, schedules_cells.due_time(fire.due_at, zone), by_id.get(fire.execution_id)) for fire in page.rows
            ],
        }


class Runs(Hub):
    tab = "runs"
    template = "admin/supervisor/schedules/runs.html"

    def context(self) -> dict[str, Any]:
        query = self.request.GET
        seen = Execution.objects.visible_to(self.actor).filter(schedule_id=self.schedule.pk)
        page = keyset.page(
            executions_cells.with_first_start(seen), time="created_at",
            before=query.get("before", ""), after=query.get("after", ""),
        )  # fmt: skip
        rows = [executions_cells.drawn(run, link("supervisor_execution_hub", run.pk)) for run in page.rows]
        return {**super().context(), "keyset": page, "headings": executions_cells.HEADINGS, "rows": rows}


class Changes(Hub):
    tab = "changes"
    template = "admin/supervisor/schedules/changes.html"

    def context(self) -> dict[str, Any]:
        return {**super().context(), **event_sentences.changes_page(self.actor, self.schedule.pk, self.request.GET)}


URLS = [
    path("<uuid:pk>/", Overview.as_view(), name="supervisor_schedule_hub"),
    path("<uuid:pk>/fires/", Fires.as_view(), name="supervisor_schedule_fires"),
    path("<uuid:pk>/runs/", Runs.as_view(), name="supervisor_schedule_runs"),
    path("<uuid:pk>/changes/", Changes.as_view(), name="supervisor_schedule_changes"),
]
