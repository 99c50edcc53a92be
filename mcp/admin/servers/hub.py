"""One server: is it up, since when, what changed, what does it cost?"""

from typing import Any

from django.db.models import Count
from django.utils.functional import cached_property

from common.console.pages import Control, Crumb, Tab, link
from common.errors import NotFound
from mcp import rights
from mcp.admin.servers import cells
from mcp.choices import BreakerState, Connection, DefinitionState, Transport
from mcp.models import Breaker, Server, Tool
from nhi.console.base import ActorMixin, ActorPage

TABS = (
    ("hub", "Overview"),
    ("tools", "Tools"),
    ("health", "Health"),
    ("limits", "Budgets and breaker"),
    ("secrets", "Secrets"),
    ("calls", "Calls"),
    ("changes", "Changes"),
)


#: What shows how a server is reached, or what was said over that way.
CONFIGURATION_TABS = frozenset({"health", "secrets"})


class OfServer(ActorMixin):
    """A page or dialog about one server that the person may see."""

    kwargs: dict[str, Any]
    server: Server

    def check(self) -> None:
        super().check()
        seen = Server.objects.visible_to(self.actor).select_related("owner")
        found = seen.filter(pk=self.kwargs["pk"]).first()
        if found is None:
            raise NotFound
        self.server = found

    @cached_property
    def breaker(self) -> Breaker | None:
        """The breaker that stops all callers of the server."""
        return Breaker.objects.for_all().filter(server=self.server).first()

    def may(self, right: str) -> bool:
        """Whether a control for this is drawn."""
        return self.actor.may(right) and not self.actor.only_reads

    def url(self, page: str) -> str:
        return link(f"mcp_server_{page}", self.server.pk)

    def api(self, verb: str = "") -> str:
        path = f"/api/nhi/mcp/servers/{self.server.pk}"
        return f"{path}/{verb}" if verb else path

    def back(self) -> str:
        return self.url("hub")


class Hub(OfServer, ActorPage):
    """The frame of every tab."""

    tab = "hub"

    def check(self) -> None:
        super().check()
        if self.tab in CONFIGURATION_TABS and not self.sees:
            raise NotFound

    def context(self) -> dict[str, Any]:
        name = self.server.name
        return {
            "title": f"{name}: {dict(TABS)[self.tab]}" if self.tab != "hub" else name,
            "server": self.server,
            "standing": cells.standing(self.server),
            "why": self._why() if self.sees else "",
            "sees": self.sees,
            "transport": Transport(self.server.transport).label,
            "breaker": self.breaker,
            "counts": self.counts,
            "quarantined": cells.said_quarantined(self.counts[DefinitionState.QUARANTINED]),
            "crumb": Crumb("Servers", link("mcp_server_changelist")),
            "controls": self._controls(),
            "more": self._more(),
            "tabs": self._tabs(),
            "api": self.api(),
        }

    def _why(self) -> str:
        """Why it is as it is. One that was never met says what stood in the way."""
        server = self.server
        unmet = server.enabled and server.status == Connection.OFFLINE and server.last_checked_at is not None
        return (server.last_error or server.status_reason) if unmet else server.status_reason

    @cached_property
    def sees(self) -> bool:
        """Whether how it is reached, and what came of that, is shown to this person."""
        return rights.sees_configuration(self.actor, self.server)

    @cached_property
    def counts(self) -> dict[str, int]:
        """Its tools by the state of their definition."""
        found = Tool.objects.filter(server=self.server).order_by().values_list("state").annotate(Count("pk"))
        return {**dict.fromkeys(DefinitionState.values, 0), **dict(found)}

    @property
    def waiting(self) -> int:
        return self.counts[DefinitionState.QUARANTINED] + self.counts[DefinitionState.PENDING]

    def _tabs(self) -> list[Tab]:
        counts = {"tools": sum(self.counts.values()) - self.counts[DefinitionState.WITHDRAWN]}
        shown = [(name, label) for name, label in TABS if self.sees or name not in CONFIGURATION_TABS]
        return [Tab(label, self.url(name), counts.get(name), name == self.tab) for name, label in shown]

    def _controls(self) -> list[Control]:
        """Test and refresh; what waits for an approval comes first for who may give it."""
        found = []
        if self.waiting and self.may("mcp.approve_definition"):
            words = "Review 1 tool" if self.waiting == 1 else f"Review {self.waiting} tools"
            found.append(Control(words, f"{self.url('tools')}?state=waiting", "rule", dialog=False))
        if self.may("mcp.operate_server"):
            blocked = "" if self.server.enabled else "It is disabled."
            found.append(Control("Test now", self.url("test"), "network_check", blocked=blocked, posts=True))
            if len(found) == 1:
                found.append(Control("Refresh tools", self.url("refresh"), "sync", blocked=blocked, posts=True))
        return found

    def _more(self) -> list[Control]:
        found = []
        if self.may("mcp.change_server"):
            found.append(Control("Edit", self.url("change"), "edit", dialog=False))
            found.append(Control("Replace a secret", f"{self.url('change')}#gh-secrets", "key", dialog=False))
        if self.may("mcp.operate_server"):
            if self.waiting and self.may("mcp.approve_definition"):
                blocked = "" if self.server.enabled else "It is disabled."
                found.append(Control("Refresh tools", self.url("refresh"), "sync", blocked=blocked))
            found += self._reset()
            switch = (
                ("Disable", "disable", "power_settings_new") if self.server.enabled else ("Enable", "enable", "power")
            )
            found.append(Control(switch[0], self.url(switch[1]), switch[2], danger=self.server.enabled))
        return found

    def _reset(self) -> list[Control]:
        breaker = self.breaker
        if breaker is None or not self.may("mcp.reset_breaker"):
            return []
        idle = breaker.state == BreakerState.CLOSED and not breaker.failure_count
        blocked = "It is closed and has counted no fault." if idle else ""
        return [Control("Reset breaker", self.url("breaker_reset"), "restart_alt", blocked=blocked)]
