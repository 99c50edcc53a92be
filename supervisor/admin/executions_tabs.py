"""The tabs of one run, each a page with its own queries."""

from typing import Any

from django.urls import path

from common.console import keyset
from common.console.pages import link
from mcp.admin.calls import cells
from nhi.models import InvocationLog
from supervisor.admin import charts_draw, executions_cells
from supervisor.admin.executions_hub import Hub
from supervisor.choices import OutputPattern
from supervisor.models import ExecutionResult, ResourceUsage
from supervisor.runner.capture import MOST_KEPT

LATEST = 5
#: All calls of the page are of one run, so none says which.
CALLS = [column for column in cells.COLUMNS if column.label != "Request"]


class Output(Hub):
    tab = "hub"
    template = "admin/supervisor/executions/output.html"

    def context(self) -> dict[str, Any]:
        result = self._result()
        usage = ResourceUsage.objects.filter(execution=self.run).first()
        return {
            **super().context(),
            "download_url": self.url("download"),
            "result": result,
            "answers": result is not None and self.run.agent.output_pattern != OutputPattern.STDOUT,
            "usage": usage,
            "sparks": charts_draw.sparks(usage.samples) if usage else {},
            "most_kept": MOST_KEPT,
            "calls": list(self._calls()[:LATEST]),
        }

    def _result(self) -> ExecutionResult | None:
        """What it wrote comes by the stream; only an answer of another kind is read here."""
        if self.run.status is None:
            return None
        rows = ExecutionResult.objects.filter(execution=self.run).defer("error")
        return (rows.defer("output") if self.run.agent.output_pattern == OutputPattern.STDOUT else rows).first()

    def _calls(self) -> Any:
        return calls_of(self)


def calls_of(page: Hub) -> Any:
    """The calls that were made with the run's own token."""
    seen = InvocationLog.objects.visible_to(page.actor).in_runs([page.run.pk])
    return seen.defer(*cells.NOT_SHOWN).order_by("-timestamp", "-id")


class Input(Hub):
    tab = "input"
    template = "admin/supervisor/executions/input.html"

    def context(self) -> dict[str, Any]:
        run = self.run
        given = run.context
        return {
            **super().context(),
            "masked": executions_cells.was_masked(run),
            "env_vars": given.get("env_vars", []),
            "allowed_by": _allowed_by(given.get("by", {})),
            "may_wait": executions_cells.span(run.wait_until - run.created_at),
        }


def _allowed_by(by: dict[str, Any]) -> str:
    """What let it be asked for, as it was recorded."""
    if "grant" in by:
        return "a grant between the two identities"
    right = str(by.get("right", ""))
    return "a role that may run every agent" if right == "supervisor.run_agent" else right


class Calls(Hub):
    tab = "calls"
    template = "admin/supervisor/executions/calls.html"

    def context(self) -> dict[str, Any]:
        query = self.request.GET
        page = keyset.page(
            calls_of(self), time="timestamp", before=query.get("before", ""), after=query.get("after", "")
        )
        return {
            **super().context(),
            "keyset": page,
            "headings": [{"label": column.label, "narrow": column.narrow} for column in CALLS],
            "rows": [_drawn(row) for row in page.rows],
        }


def _drawn(row: InvocationLog) -> dict[str, Any]:
    cells = [{"html": column.cell(row), "narrow": column.narrow} for column in CALLS]
    return {"url": link("nhi_invocationlog_call", row.pk), "cells": cells}


class Resources(Hub):
    tab = "resources"
    template = "admin/supervisor/executions/resources.html"

    def context(self) -> dict[str, Any]:
        usage = ResourceUsage.objects.filter(execution=self.run).first()
        return {
            **super().context(),
            "usage": usage,
            "charts": charts_draw.resources(usage.samples) if usage else [],
        }


class Attempts(Hub):
    tab = "attempts"
    template = "admin/supervisor/executions/attempts.html"

    def context(self) -> dict[str, Any]:
        return {**super().context(), "attempts": list(self.run.attempts.order_by("attempt"))}


class Transitions(Hub):
    tab = "transitions"
    template = "admin/supervisor/executions/transitions.html"

    def context(self) -> dict[str, Any]:
        return {**super().context(), "moves": self.transitions}


URLS = [
    path("<uuid:pk>/", Output.as_view(), name="supervisor_execution_hub"),
    path("<uuid:pk>/input/", Input.as_view(), name="supervisor_execution_input"),
    path("<uuid:pk>/calls/", Calls.as_view(), name="supervisor_execution_calls"),
    path("<uuid:pk>/resources/", Resources.as_view(), name="supervisor_execution_resources"),
    path("<uuid:pk>/attempts/", Attempts.as_view(), name="supervisor_execution_attempts"),
    path("<uuid:pk>/transitions/", Transitions.as_view(), name="supervisor_execution_transitions"),
]
