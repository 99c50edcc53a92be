"""Tabs of a server."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.core.paginator import Paginator
from django.db.models import Q
from django.urls import path
from django.utils import timezone

from common.console import badges, keyset, times
from common.console.pages import Control, link_if_any
from common.db import clock
from common.executors import background_loop
from common.ids import parse_uuid
from common.redaction.redactor import Redactor
from mcp.admin.call_statistics import Numbers, of_servers
from mcp.admin.servers import diagnosis
from mcp.admin.servers.cells import command_line
from mcp.admin.servers.hub import Hub
from mcp.choices import BudgetScope, DefinitionState
from mcp.client import transports
from mcp.client.stdio_transport import StdioTransport
from mcp.limits import budgets
from mcp.models import Breaker, Budget, Call, HealthReport, Server, Tool
from mcp.protocol.upstream_errors import UpstreamFailure
from mcp.servers.targets import resolve_server
from mcp.tools import definitions
from nhi.console import event_sentences
from nhi.models import InvocationLog

CELLS = 60
SHOWN = 50
DAY, MONTH = timedelta(days=1), timedelta(days=30)
STATES = (("waiting", "Waiting for approval"), *DefinitionState.choices)


class Overview(Hub):
    tab = "hub"
    template = "admin/mcp/servers/overview.html"

    def context(self) -> dict[str, Any]:
        name, cells = self.server.name, self._cells()
        return {
            **super().context(),
            "cells": cells,
            **(self._configuration(cells) if self.sees else {}),
            "numbers": of_servers([name], span=DAY).get(name, Numbers()),
            "in_flight": Call.objects.filter(server_id=self.server.pk).count(),
            "budget": Budget.objects.filter(scope=BudgetScope.SERVER, target_id=self.server.pk).first(),
        }

    def _configuration(self, cells: list[dict[str, Any]]) -> dict[str, Any]:
        """How it is reached, and what came of that."""
        met = cells[-1]["report"] if cells else None
        return {
            "command_line": command_line(self.server.command, self.server.args),
            "process": of(self.server),
            "diagnosis": diagnosis.of(self.server, met, self.breaker),
        }

    def _cells(self) -> list[dict[str, Any]]:
        """The last reports, the oldest first; each with the words for who does not see its colour."""
        reports = HealthReport.objects.filter(server=self.server).order_by("-timestamp", "-id")[:CELLS]
        return [_cell(report) for report in reversed(reports)]


def _cell(report: HealthReport) -> dict[str, Any]:
    badge = badges.find("mcp.HealthStatus", report.status)
    latency = f", {times.lasted(report.handshake_latency_ms)}" if report.handshake_latency_ms is not None else ""
    return {
        "report": report,
        "tone": badge.tone.value,
        "words": f"{times.absolute(report.timestamp, timezone.now())} {badge.label}{latency}",
    }


class Tools(Hub):
    tab = "tools"
    template = "admin/mcp/servers/tools.html"

    def context(self) -> dict[str, Any]:
        query = self.request.GET
        state, term = query.get("state", ""), query.get("q", "").strip()[:200]
        rows = (
            Tool.objects.visible_to(self.actor)
            .filter(server=self.server)
            .select_related("identity", "current")
            .order_by("name")
        )
        rows = rows.filter(_in_state(state)) if state else rows
        rows = rows.filter(name__icontains=term) if term else rows
        page = Paginator(rows, SHOWN).get_page(query.get("page"))
        shown = list(page.object_list)
        approves = self.may("mcp.approve_definition")
        return {
            **super().context(),
            "page": page,
            "rows": shown,
            "first": {tool.pk for tool in shown if approves and not definitions.why_not_in_bulk(tool)},
            "state": state,
            "states": STATES,
            "term": term,
            "narrowed": bool(state or term),
        }


def _in_state(state: str) -> Q:
    if state == "waiting":
        return Q(state__in=[DefinitionState.PENDING, DefinitionState.QUARANTINED])
    return Q(state=state) if state in DefinitionState.values else Q()


class Health(Hub):
    tab = "health"
    template = "admin/mcp/servers/health.html"

    def context(self) -> dict[str, Any]:
        reports, query = HealthReport.objects.filter(server=self.server), self.request.GET
        shown = keyset.page(
            reports, time="timestamp", before=query.get("before", ""), after=query.get("after", ""), size=SHOWN
        )
        chosen = parse_uuid(query.get("report", ""))
        return {**super().context(), "keyset": shown, "rows": shown.rows, "chosen": chosen}


class Limits(Hub):
    tab = "limits"
    template = "admin/mcp/servers/limits.html"

    def context(self) -> dict[str, Any]:
        tools = Tool.objects.filter(server=self.server).values("pk")
        found = list(
            Budget.objects.filter(
                Q(scope=BudgetScope.SERVER, target_id=self.server.pk) | Q(scope=BudgetScope.TOOL, target_id__in=tools)
            ).order_by("scope", "target_name")[:SHOWN]
        )
        used = budgets.load_usage(found)
        return {
            **super().context(),
            "budgets": [{"budget": one, "used": used[one.pk]} for one in found],
            "all_budgets": link_if_any("mcp_budget_changelist"),
            "all_breakers": link_if_any("mcp_breaker_changelist"),
            "reset": next(iter(self._reset()), None),
            "own_breakers": self._own_breakers(),
        }

    def _own_breakers(self) -> list[Breaker]:
        """Breakers of single identities on this server, for those who may see them."""
        if not self.actor.may("mcp.view_breaker"):
            return []
        rows = Breaker.objects.for_one().filter(server=self.server).order_by("-state", "agent_name", "id")
        return list(rows[:SHOWN])


class Secrets(Hub):
    tab = "secrets"
    template = "admin/mcp/servers/secrets.html"

    def context(self) -> dict[str, Any]:
        replace = Control("Replace a secret", f"{self.url('change')}#gh-secrets", "key", dialog=False)
        return {
            **super().context(),
            "secrets": self.server.secrets.defer("sealed"),
            "replace": replace if self.may("mcp.change_server") else None,
        }


class Calls(Hub):
    tab = "calls"
    template = "admin/mcp/servers/calls.html"

    def context(self) -> dict[str, Any]:
        return {
            **super().context(),
            **self._numbers(),
            "calls": self._last(),
            "words": "No call of its tools in 30 days that you can see.",
            "log": link_if_any("nhi_invocationlog_changelist"),
            "log_query": f"?server={self.server.name}",
        }

    def _numbers(self) -> dict[str, Any]:
        if not self.actor.may("nhi.view_invocationlog"):
            return {}
        day = of_servers([self.server.name], span=DAY).get(self.server.name, Numbers())
        return {"numbers": day, "in_flight": Call.objects.filter(server_id=self.server.pk).count()}

    def _last(self) -> list[InvocationLog]:
        seen = InvocationLog.objects.visible_to(self.actor).filter(timestamp__gte=timezone.now() - MONTH)
        return list(seen.filter(tool_name=self.server.name).order_by("-timestamp", "-id")[:SHOWN])


class Changes(Hub):
    tab = "changes"
    template = "admin/mcp/servers/changes.html"

    def context(self) -> dict[str, Any]:
        return {**super().context(), **event_sentences.changes_page(self.actor, self.server.pk, self.request.GET)}


URLS = [
    path("<uuid:pk>/", Overview.as_view(), name="mcp_server_hub"),
    path("<uuid:pk>/tools/", Tools.as_view(), name="mcp_server_tools"),
    path("<uuid:pk>/health/", Health.as_view(), name="mcp_server_health"),
    path("<uuid:pk>/limits/", Limits.as_view(), name="mcp_server_limits"),
    path("<uuid:pk>/secrets/", Secrets.as_view(), name="mcp_server_secrets"),
    path("<uuid:pk>/calls/", Calls.as_view(), name="mcp_server_calls"),
    path("<uuid:pk>/changes/", Changes.as_view(), name="mcp_server_changes"),
]


#: A page does not wait longer for the owner than this.
SECONDS = 1.0
LAST_LINES = 30


@dataclass(frozen=True)
class Process:
    """`trouble` says why nothing is known of it; then all else is empty."""

    trouble: str = ""
    pid: int | None = None
    since: datetime | None = None
    starts: int = 0
    failures: int = 0
    last_end: str = ""
    #: What it wrote on standard error, its secrets taken out.
    said: tuple[str, ...] = ()


def of(server: Server) -> Process | None:
    """None for a server that is no process of ours."""
    owner = transports.TRANSPORTS[server.transport]
    if not isinstance(owner, StdioTransport):
        return None
    try:
        told = background_loop.run(owner.status(server.pk, timeout=SECONDS), timeout=SECONDS + 1)
    except UpstreamFailure as trouble:
        return Process(trouble=str(getattr(trouble, "detail", trouble)))
    except TimeoutError:
        return Process(trouble=f"The process that runs servers did not answer within {SECONDS:g} s.")
    redactor = Redactor(secret_values=frozenset(resolve_server(server).secret_values))
    lines = tuple(redactor.redact_text(str(line)) for line in told.get("stderr", [])[-LAST_LINES:])
    return Process(
        pid=told.get("pid"),
        since=clock.parse_database_time(told["since"]) if told.get("since") else None,
        starts=int(told.get("starts", 0)),
        failures=int(told.get("failures", 0)),
        last_end=redactor.redact_text(str(told.get("last_end") or "")),
        said=lines,
    )
