"""The page and the side panel of one call."""

from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from typing import Any
from urllib.parse import urlencode

from common.console import badges, times
from common.console.pages import Control, Crumb, link, link_if_any, wants_part
from common.errors import GatehouseError, NotFound
from common.templatetags.console import spell_invisible
from mcp.admin.calls import cells, decision_checks, run_links
from mcp.gateway.batch.facts import NO_SERVER_CONDITION
from mcp.models import Tool
from nhi.audit import row_macs
from nhi.authorization import explain
from nhi.authorization.explain import Explanation
from nhi.console.base import ActorPage
from nhi.decisions.reasons import REASONS
from nhi.models import Identity, InvocationLog, ToolPermission

#: How far around a call its neighbours are looked for, and how many are shown on each side.
AROUND = timedelta(seconds=30)
SHOWN = 6
#: Refusals of the task that a call was made in: asked without it, they say nothing.
OF_TASK = ("chain_", "task_")


@dataclass(frozen=True)
class Part:
    """A stretch of the call's time, in milliseconds and in hundredths of the whole."""

    name: str
    tone: str
    milliseconds: float
    begins: float
    width: float

    @property
    def words(self) -> str:
        return times.lasted(self.milliseconds)


class CallPage(ActorPage):
    template = "admin/mcp/calls/call.html"

    def check(self) -> None:
        found = InvocationLog.objects.visible_to(self.actor).filter(pk=self.kwargs["pk"]).first()
        if found is None:
            raise NotFound
        self.row: InvocationLog = found

    def context(self) -> dict[str, Any]:
        row = self.row
        return {
            "title": spell_invisible(f"{row}, {times.exact(row.timestamp)}"),
            "heading": str(row),
            "call": row,
            "tool": cells.tool(row),
            "tool_url": self._tool_url(),
            "state": cells.state(row),
            "took": times.lasted(row.duration),
            "crumb": Crumb("Calls", link("nhi_invocationlog_changelist")),
            "controls": self._controls(),
            "checks": decision_checks.recorded(row),
            "passed": decision_checks.let_through(row),
            "remedy": self._remedy(),
            "grant_url": self._grant_url(),
            "role_url": link_if_any("nhi_role_hub", row.role_id) if row.role_id else "",
            "today": self._today(),
            "today_badge": badges.of(self.today.decision.verdict) if self.today else None,
            "sees_sides": self.sees_sides,
            "parts": time_bar(row),
            "budgets": [{**stood, "words": _named(stood)} for stood in row.details.get("budgets", [])],
            "breaker": row.details.get("breaker"),
            "approval_url": self._approval_url(),
            "neighbours": self._neighbours(),
            "within": next(iter(run_links.of(self.actor, [row]).values()), None),
            "task": run_links.task(self.actor, row.task_id),
            "above": [link["name"] for link in row.chain[:-1]],
            "verdict": row_macs.verify_row(row).value,
            "address": self.request.build_absolute_uri(self.request.path),
            "api": f"/api/nhi/mcp/invocations/{row.pk}",
        }

    def _controls(self) -> list[Control]:
        row = self.row
        if row.tool_id is None or self.today is None:
            return []
        query = urlencode({"caller": row.agent_id, "target": row.tool_id})
        return [Control("What would make it pass", f"{link('explain')}?{query}", "rule", dialog=False)]

    def _remedy(self) -> str:
        known = REASONS.get(self.row.reason)
        target = spell_invisible(cells.tool(self.row))
        return known.remedy.format(caller=self.row.agent_name, target=target) if known else ""

    @cached_property
    def today(self) -> Explanation | None:
        """What a call that was refused would be told now, for who may see both sides."""
        if self.row.tool_id is None or self.row.reason not in REASONS or self.row.reason.startswith(OF_TASK):
            return None
        try:
            return explain.explain(actor=self.actor, caller_id=self.row.agent_id, target_id=self.row.tool_id)
        except GatehouseError:
            return None

    def _tool_url(self) -> str:
        """Its own page where it is a server's tool, else that of its identity."""
        if not self.sees_sides:
            return ""
        return link("mcp_tool_hub" if self._is_a_servers() else "nhi_identity_hub", self.row.tool_id)

    def _is_a_servers(self) -> bool:
        """Explaining has asked its server; without that, the register of tools is."""
        if self.today is not None:
            server = next((check for check in self.today.checks if check.name == "server"), None)
            return server is not None and server.outcome != "skip" and server.reason != NO_SERVER_CONDITION.reason
        return Tool.objects.filter(pk=self.row.tool_id).exists()

    @cached_property
    def sees_sides(self) -> bool:
        """Explaining has looked already; else the pages of agent and tool are only named where they can be opened."""
        if self.today is not None or self.row.tool_id is None:
            return self.today is not None
        sides = {self.row.agent_id, self.row.tool_id}
        return Identity.objects.visible_to(self.actor).filter(pk__in=sides).count() == len(sides)

    def _today(self) -> str:
        if self.today is None:
            return ""
        decision = self.today.decision
        asks = {check.name for check in decision.checks if check.outcome == "fail"}
        unsure = asks & {"arguments", "input", "approval"} or decision.allowed
        return f"{decision.message}{' Asked without its arguments, which are not kept.' if unsure else ''}"

    def _grant_url(self) -> str:
        if self.row.grant_id is None:
            return ""
        seen = ToolPermission.objects.visible_to(self.actor).filter(pk=self.row.grant_id)
        return link("nhi_toolpermission_page", self.row.grant_id) if seen.exists() else ""

    def _approval_url(self) -> str:
        known = self.row.details.get("approval_id")
        return link_if_any("mcp_callapproval_page", known) if known else ""

    def _neighbours(self) -> list[dict[str, Any]]:
        """What the same agent did just before and just after, newest first."""
        row = self.row
        same = InvocationLog.objects.visible_to(self.actor).filter(agent_id=row.agent_id).exclude(pk=row.pk)
        after = same.filter(timestamp__range=(row.timestamp, row.timestamp + AROUND)).order_by("timestamp", "id")
        before = same.filter(timestamp__range=(row.timestamp - AROUND, row.timestamp)).order_by("-timestamp", "-id")
        found = {other.pk: other for other in [*reversed(after[:SHOWN]), *before[:SHOWN]]}
        return [_beside(other, row) for other in found.values()]


def _named(stood: dict[str, Any]) -> str:
    """`agent deploy-bot`; a grant is named as one already."""
    scope, name = str(stood.get("scope", "")), str(stood.get("name", ""))
    return spell_invisible(name if name.startswith(f"the {scope} ") else f"{scope} {name}".strip())


def _beside(other: InvocationLog, row: InvocationLog) -> dict[str, Any]:
    apart = (other.timestamp - row.timestamp).total_seconds()
    return {
        "call": other,
        "apart": f"{abs(apart):.1f} s {'after' if apart >= 0 else 'before'}",
        "outcome": cells.outcome(other),
        "together": _together(other, row),
    }


def _together(one: InvocationLog, other: InvocationLog) -> str:
    """What two calls of one agent have in common."""
    if one.request_id == other.request_id:
        return "same request"
    return "same run" if one.execution_id is not None and one.execution_id == other.execution_id else ""


def time_bar(row: InvocationLog) -> list[Part]:
    """Where the time went: deciding, the server, and what is left of the whole."""
    decide, upstream = (float(row.details.get(name, 0.0)) for name in ("decide_ms", "upstream_ms"))
    rest = row.duration - decide - upstream
    spans = [("deciding", "deciding", decide), ("the server", "server", upstream), ("the rest", "rest", rest)]
    whole = max(row.duration, decide + upstream)
    parts, at = [], 0.0
    for name, tone, milliseconds in spans if whole and "upstream_ms" in row.details else []:
        width = max(0.0, milliseconds) / whole * 100
        if width >= 0.1:
            parts.append(Part(name, tone, milliseconds, round(at, 2), round(width, 2)))
        at += width
    return parts


class CallPanel(CallPage):
    """The page's own facts, to the same people."""

    template = "admin/mcp/calls/panel.html"

    def context(self) -> dict[str, Any]:
        known = super().context()
        return {
            **known,
            "title": spell_invisible(f"At a glance: {self.row}, {times.exact(self.row.timestamp)}"),
            "page_url": link("nhi_invocationlog_call", self.row.pk),
            "level": 3 if wants_part(self.request) else 2,
            "decided_by": next((check for check in known["checks"] if check.decides), None),
        }

    def _neighbours(self) -> list[dict[str, Any]]:
        """They are in the list that this stands beside."""
        return []
