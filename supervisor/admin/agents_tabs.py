"""The tabs of one agent, each a page with its own queries."""

import shlex
from datetime import timedelta
from typing import Any

from django.urls import path

from common.console import keyset
from common.console.charts import get_chosen_range, range_tabs
from common.console.pages import link
from nhi.console import event_sentences
from supervisor import agents
from supervisor.admin import agents_cells, charts, executions_cells
from supervisor.admin.agents_hub import Hub
from supervisor.admin.executions_filters import list_url
from supervisor.choices import AccessType, ExecutionState, InputPattern, Kind, Mode, OutputPattern
from supervisor.models import Execution

LATEST = 6


class Overview(Hub):
    tab = "hub"
    template = "admin/supervisor/agents/overview.html"

    def context(self) -> dict[str, Any]:
        chosen = get_chosen_range(self.request)
        runs = Execution.objects.visible_to(self.actor).filter(agent=self.agent)
        return {
            **super().context(),
            "unable": self.unable,
            "is_model": self.agent.kind == Kind.MODEL,
            "talks": self.agent.mode == Mode.INTERACTIVE,
            "starting": self.starting(),
            "access": AccessType(self.agent.access_type).label,
            "input": InputPattern(self.agent.input_pattern).label,
            "output": OutputPattern(self.agent.output_pattern).label,
            "command_line": shlex.join([self.agent.executable_path, *agents.shown_words(self.agent)]),
            "envs": agents.shown(self.agent),
            "has_key": bool(self.agent.sealed_key),
            "times": {name: _span(getattr(self.agent, name)) for name in TIMES},
            **self._now(),
            "last": [_row(run) for run in executions_cells.with_first_start(runs).order_by(*NEWEST)[:LATEST]],
            "headings": executions_cells.HEADINGS,
            "range": chosen,
            "ranges": range_tabs(chosen, self.url("hub")),
            "charts": charts.drawn(runs, chosen, agent=self.agent.name) if self.agent.runs else [],
        }

    def _now(self) -> dict[str, Any]:
        open_ones = Execution.objects.filter(agent=self.agent, status=None).values_list("slot", "state")
        held = list(open_ones)
        agent: Any = self.agent
        agent.used = sum(slot is not None for slot, _ in held)
        agent.waiting = sum(state == ExecutionState.QUEUED for _, state in held)
        return {name: cell(agent) for name, cell in NOW.items()}


NOW = {"slots": agents_cells.slots, "queue": agents_cells.queue, "free": agents_cells.free}
NEWEST = ("-created_at", "-id")
TIMES = ("timeout", "queue_wait", "session_timeout", "idle_timeout")


def _span(seconds: int) -> str:
    return executions_cells.span(timedelta(seconds=seconds))


def _row(run: Execution) -> dict[str, Any]:
    return executions_cells.drawn(run, link("supervisor_execution_hub", run.pk))


class Runs(Hub):
    tab = "runs"
    template = "admin/supervisor/agents/runs.html"

    def context(self) -> dict[str, Any]:
        query = self.request.GET
        seen = executions_cells.with_first_start(Execution.objects.visible_to(self.actor).filter(agent=self.agent))
        page = keyset.page(seen, time="created_at", before=query.get("before", ""), after=query.get("after", ""))
        return {
            **super().context(),
            "keyset": page,
            "headings": executions_cells.HEADINGS,
            "rows": [_row(run) for run in page.rows],
            "list_url": list_url(agent=self.agent.name),
            "starting": self.starting(),
        }


class Changes(Hub):
    tab = "changes"
    template = "admin/supervisor/agents/changes.html"

    def context(self) -> dict[str, Any]:
        return {**super().context(), **event_sentences.changes_page(self.actor, self.agent.pk, self.request.GET)}


URLS = [
    path("<uuid:pk>/", Overview.as_view(), name="supervisor_agent_hub"),
    path("<uuid:pk>/runs/", Runs.as_view(), name="supervisor_agent_runs"),
    path("<uuid:pk>/changes/", Changes.as_view(), name="supervisor_agent_changes"),
]
