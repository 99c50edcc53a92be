"""The list of agents that run here."""

from typing import Any
from uuid import UUID

from django.contrib import admin
from django.db.models import Count, F, Q, QuerySet
from django.http import HttpRequest
from django.urls import URLPattern

from common.console.lists import Bulk, Preset, choice_filter, text_filter
from common.console.pages import Control, link
from common.templatetags.console import as_curl
from nhi.console.base import VisibleRowsAdmin
from nhi.console.request_actor import actor_of, may_change
from supervisor import access
from supervisor.admin import agents_cells, agents_forms, agents_run, agents_switch, agents_tabs
from supervisor.choices import AccessType, Kind, Mode
from supervisor.models import Agent, Execution


@admin.register(Agent)
class AgentAdmin(VisibleRowsAdmin):
    title = "Agents"
    lead = "The programs and models that run here. Each acts as an identity of kind agent, within its slots and limits."
    template = "admin/supervisor/agents/list.html"
    view_right = "supervisor.view_agent"
    columns = agents_cells.COLUMNS
    filters = (
        choice_filter("kind", "Kind", "kind", Kind.choices),
        choice_filter("mode", "Mode", "mode", Mode.choices),
        choice_filter("access", "Access", "access_type", AccessType.choices),
        choice_filter("enabled", "Switch", "enabled", (("True", "On"), ("False", "Off"))),
        text_filter("identity", "Identity", "identity__name"),
    )
    search = ("name__icontains", "identity__name__icontains", "executable_path__icontains", "model__icontains")
    search_words = "Name, identity, program or model"
    order = ("-enabled", "name")
    bulk: tuple[Bulk, ...] = ()
    presets = (Preset("All"), Preset("Off", "enabled=False"), Preset("Models", "kind=model"))
    empty_title = "No agent runs here yet"
    empty_words = (
        "An agent is a program of this machine, or a model, made a governed one by configuration alone: its input, "
        "its limits, and the identity that it acts as."
    )
    empty_command = as_curl(
        "POST",
        "/api/nhi/supervisor/agents",
        {"identity_id": "…", "name": "summarise", "executable_path": "/opt/agents/summarise"},
    )
    empty_icon = "smart_toy"
    api_path = "/api/nhi/supervisor/agents"

    def related(self, rows: QuerySet[Any]) -> QuerySet[Any]:
        return rows.select_related("identity").defer("sealed_envs", "sealed_key", "instructions")

    def controls(self, request: HttpRequest) -> list[Control]:
        if not may_change(request, "supervisor.add_agent"):
            return []
        return [Control("Add program or model", link("supervisor_agent_add"), "add", dialog=False)]

    def prepare(self, request: HttpRequest, rows: list[Any]) -> None:
        """What one page shows beside the rows themselves: slots and queues, last runs, whom one may run."""
        ids = [row.pk for row in rows]
        numbers, last = in_use(ids), last_runs(ids)
        allowed = access.runnable(actor_of(request), {row.identity_id for row in rows})
        for row in rows:
            row.used, row.waiting = numbers.get(row.pk, (0, 0))
            row.last_run = last.get(row.pk)
            row.not_run = agents_cells.not_run(row)
            row.run_url = agents_cells.way_to_run(row) if row.identity_id in allowed and not row.not_run else ""

    def row_url(self, row: Any) -> str:
        return link("supervisor_agent_hub", row.pk)

    def pages(self) -> list[URLPattern]:
        return [*agents_forms.URLS, *agents_tabs.URLS, *agents_run.URLS, *agents_switch.URLS]


def in_use(agents: list[UUID]) -> dict[UUID, tuple[int, int]]:
    """How many runs of each hold a slot, and how many wait."""
    rows = Execution.objects.filter(agent__in=agents).filter(Q(slot__isnull=False) | Q(state="queued")).order_by()
    counted = rows.values_list("agent_id").annotate(
        used=Count("pk", filter=Q(slot__isnull=False)), waiting=Count("pk", filter=Q(state="queued"))
    )
    return {agent: (used, waiting) for agent, used, waiting in counted}


def last_runs(agents: list[UUID]) -> dict[UUID, Execution]:
    """The newest of each, by its number: as many rows as agents, whatever has run before."""
    newest = Execution.objects.filter(agent__in=agents, number=F("agent__runs"))
    columns = ("agent_id", "agent_name", "number", "state", "status", "error_category", "created_at",
               "cancel_requested_at")  # fmt: skip
    return {run.agent_id: run for run in newest.only(*columns)}
