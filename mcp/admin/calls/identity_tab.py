"""What an identity called, or was called for: a tab of its page, its last refusals beside how it connects."""

from typing import Any

from django.db.models import QuerySet

from common.console import keyset, navigation
from common.console.pages import Tab, link
from common.templatetags.console import spell_invisible
from mcp.admin.calls import active_calls
from mcp.admin.calls import cells as calls_cells
from mcp.admin.calls.filters import log_url
from nhi.actors import Actor
from nhi.admin.identities import hub
from nhi.admin.identities.hub import Added, Hub, Part
from nhi.choices import CallStatus, Kind
from nhi.decisions.reasons import REASONS
from nhi.models import Identity, InvocationLog

REFUSED = (CallStatus.PERMISSION_DENIED, CallStatus.RATE_LIMITED)
SHOWN = 10


def of(identity: Identity, actor: Actor) -> QuerySet[InvocationLog]:
    """A caller's own calls; of a tool, those that named it, also before it was there."""
    seen = InvocationLog.objects.visible_to(actor)
    if identity.kind != Kind.TOOL:
        return seen.filter(agent_id=identity.pk)
    server, _, tool = identity.name.partition("__")
    return seen.filter(tool_name=server, method=tool)


class Activity(Hub):
    tab = "activity"
    template = "admin/mcp/calls/activity.html"

    def context(self) -> dict[str, Any]:
        query, outcome = self.request.GET, self.request.GET.get("outcome", "")
        rows = of(self.identity, self.actor)
        if outcome in CallStatus.values:
            rows = rows.filter(status=outcome)
        page = keyset.page(rows, time="timestamp", before=query.get("before", ""), after=query.get("after", ""))
        first = not outcome and not query.get("before") and not query.get("after")
        flights = (
            active_calls.of_agent(self.actor, self.identity.pk)
            if first and page_sees(self.actor, self.identity)
            else []
        )
        return {
            **super().context(),
            "keyset": page,
            "headings": [{"label": column.label, "narrow": column.narrow} for column in calls_cells.COLUMNS],
            "rows": [_drawn(row) for row in [*flights, *page.rows]],
            "views": self._views(outcome),
            "log_url": log_url(**{"tool" if self.identity.kind == Kind.TOOL else "agent": self.identity.name}),
        }

    def _views(self, chosen: str) -> list[Tab]:
        here = self.url("activity")
        known = [("All", ""), ("Denied", "permission_denied"), ("Errors", "error"), ("Rate limited", "rate_limited")]
        return [
            Tab(label, f"{here}?outcome={value}" if value else here, current=value == chosen) for label, value in known
        ]


def page_sees(actor: Actor, identity: Identity) -> bool:
    """Leases know no `visible_to`: who sees the log of an identity sees what it is doing."""
    return actor.may("nhi.view_invocationlog") or Identity.objects.managed_by(actor).filter(pk=identity.pk).exists()


def _drawn(row: Any) -> dict[str, Any]:
    flying = isinstance(row, active_calls.ActiveCallRow)
    cells = [{"html": column.cell(row), "narrow": column.narrow} for column in calls_cells.COLUMNS]
    return {"url": "" if flying else link("nhi_invocationlog_call", row.pk), "cells": cells}


def last_refusals(actor: Actor, identity: Identity) -> dict[str, Any]:
    """For the developer whose call does not pass: the sentence, and what to do next."""
    rows = of(identity, actor).filter(status__in=REFUSED).order_by("-timestamp", "-id")[:SHOWN]
    return {"refusals": [_refusal(row) for row in rows], "log_url": log_url(agent=identity.name, span="all")}


def _refusal(row: InvocationLog) -> dict[str, Any]:
    known = REASONS.get(row.reason)
    remedy = known.remedy.format(caller=row.agent_name, target=spell_invisible(calls_cells.tool(row))) if known else ""
    return {"call": row, "remedy": remedy}


navigation.add_site_page("nhi/identity/<uuid:pk>/activity/", Activity.as_view(), "nhi_identity_activity")
hub.add_tab(Added("activity", "Activity"))
hub.add_part(Part("connect", "admin/mcp/calls/refusals.html", last_refusals))
