"""One tool: what is it, who may call it, did it change under us?"""

from typing import Any

from django.utils.functional import cached_property

from common.console import badges
from common.console.pages import Control, Crumb, Tab, link
from common.errors import NotFound
from mcp.admin.tools import callers
from mcp.choices import DefinitionState
from mcp.models import Tool
from nhi.admin.identities import hub
from nhi.admin.identities.hub import Beside
from nhi.choices import Kind
from nhi.console.base import ActorMixin, ActorPage
from nhi.models import Identity

TABS = (
    ("change", "What waits"),
    ("hub", "Definition"),
    ("versions", "Versions"),
    ("access", "Access"),
    ("calls", "Calls"),
    ("budget", "Budget"),
    ("changes", "Changes"),
)
WAITING = (DefinitionState.PENDING, DefinitionState.QUARANTINED)


class OfTool(ActorMixin):
    """A page or dialog about one tool that the person may see."""

    kwargs: dict[str, Any]
    tool: Tool

    def check(self) -> None:
        super().check()
        seen = Tool.objects.visible_to(self.actor).select_related("identity__owner", "server", "approved", "current")
        found = seen.filter(pk=self.kwargs["pk"]).first()
        if found is None:
            raise NotFound
        self.tool = found

    @property
    def waits(self) -> bool:
        return self.tool.state in WAITING

    def may(self, right: str) -> bool:
        """Whether a control for this is drawn."""
        return self.actor.may(right) and not self.actor.only_reads

    def url(self, page: str) -> str:
        return link(f"mcp_tool_{page}", self.tool.pk)

    def api(self, verb: str = "") -> str:
        path = f"/api/nhi/mcp/tools/{self.tool.pk}"
        return f"{path}/{verb}" if verb else path

    def back(self) -> str:
        return self.url("hub")


class Hub(OfTool, ActorPage):
    """The frame of every tab."""

    tab = "hub"

    def context(self) -> dict[str, Any]:
        tool, name = self.tool, self.tool.identity.name
        return {
            "title": f"{name}: {dict(TABS)[self.tab]}" if self.tab != "hub" else name,
            "tool": tool,
            "identity": tool.identity,
            "server": tool.server,
            "state": badges.find("mcp.DefinitionState", tool.state),
            "hints": hints(tool),
            "reach": self.reach,
            "crumb": Crumb("Tools", link("mcp_tool_changelist")),
            "controls": self._controls(),
            "more": self._more(),
            "tabs": self._tabs(),
            "api": self.api(),
        }

    @cached_property
    def reach(self) -> callers.Reach:
        return callers.of_page([self.tool.identity])[self.tool.pk]

    def _tabs(self) -> list[Tab]:
        shown = [(page, label) for page, label in TABS if page != "change" or self.waits]
        return [Tab(label, self.url(page), None, page == self.tab) for page, label in shown]

    def _controls(self) -> list[Control]:
        if not self.waits:
            return []
        words = "Review change" if self.tool.state == DefinitionState.QUARANTINED else "Review definition"
        return [Control(words, self.url("change"), "rule", dialog=False)]

    def _more(self) -> list[Control]:
        if not self.may("mcp.change_tool"):
            return []
        approval = "Let calls pass at once" if self.tool.requires_approval else "Let each call wait for a person"
        use = "Take back the deprecation" if self.tool.deprecated else "Deprecate"
        return [
            Control("Change owner", self.url("owner"), "person"),
            Control(approval, self.url("approval"), "front_hand"),
            Control(use, self.url("deprecation"), "history", danger=not self.tool.deprecated),
        ]


def hints(tool: Tool) -> list[str]:
    """What the server says of how the tool behaves. Nobody has checked it, so nothing rests on it."""
    shown = tool.current or tool.approved
    said = (shown.body.get("annotations") if shown else None) or {}
    if not isinstance(said, dict):
        return []
    words = (
        ("readOnlyHint", "read-only", "not read-only"),
        ("destructiveHint", "destructive", "not destructive"),
        ("idempotentHint", "idempotent", "not idempotent"),
        ("openWorldHint", "reaches outside", "does not reach outside"),
    )
    return [yes if said[name] is True else no for name, yes, no in words if isinstance(said.get(name), bool)]


def beside(identity: Identity) -> Beside | None:
    """From the page of a tool's identity to that of its definition."""
    if identity.kind != Kind.TOOL:
        return None
    tool = Tool.objects.filter(pk=identity.pk).only("state").first()
    if tool is None:
        return None
    return Beside("Definition", DefinitionState(tool.state).label, link("mcp_tool_hub", tool.pk))


hub.add_beside(beside)
