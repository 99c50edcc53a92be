"""Approving the first definitions of one new server together. What was changed is looked at one by one."""

from collections.abc import Callable
from typing import Any

from django import forms
from django.db.models import QuerySet
from django.urls import path
from django.utils.functional import cached_property

from common.console import lists
from common.console.confirmation_dialogs import Effect, counted
from common.console.forms import ConsoleForm, ReasonField
from common.console.pages import link
from common.errors import NotAllowed
from mcp.admin.tools import definition_view
from mcp.admin.tools.hub import hints
from mcp.models import Server, Tool
from mcp.tools import definitions, injection_flags
from nhi.console.bulk_dialog import BulkDialog
from nhi.models import Identity

ONE_SERVER = "Approve the tools of one server at a time."


class BulkForm(ConsoleForm):
    #: The hashes that the page showed, in the order of the names: what changed since then is refused.
    hashes = forms.CharField(widget=forms.HiddenInput, required=False)
    #: Empty: that somebody read them is theirs to say.
    reason = ReasonField()


class Approve(BulkDialog[Tool]):
    template = "admin/mcp/tools/bulk.html"
    wide = True
    form_class = BulkForm
    verb = "Approve"
    nouns = ("definition", "definitions")
    kind = "tool"
    list_name = "mcp_tool_changelist"
    order = ("server__name", "name")
    lead = "Calls pass by these definitions from then on. A later change of any of them waits again."

    def check(self) -> None:
        super().check()
        self.actor.require("mcp.approve_definition", "approve definitions of tools")

    def rows(self) -> QuerySet[Tool]:
        return Tool.objects.visible_to(self.actor).select_related("identity", "server", "current")

    @property
    def servers(self) -> list[str]:
        return sorted({tool.server.name for tool in self.chosen})

    @cached_property
    def names_elsewhere(self) -> injection_flags.NameVocabulary:
        """The names that a definition of this server should not speak of; read once for all of them."""
        server = self.chosen[0].server if self.chosen else Server()
        return definitions.load_vocabulary(server)

    def misfit(self, one: Tool) -> str:
        return definitions.why_not_in_bulk(one, self.names_elsewhere if len(self.servers) == 1 else None)

    def called(self, one: Tool) -> str:
        return one.identity.name

    def counted(self, count: int) -> str:
        of = f" of {self.servers[0]}" if len(self.servers) == 1 else ""
        return f"{super().counted(count)}{of}"

    @property
    def typed(self) -> str:  # type: ignore[override]  # the number is known once there is a request
        return lists.to_type(len(self.fitting))

    def context(self) -> dict[str, Any]:
        words = f"{ONE_SERVER[:-1]}: these are of {', '.join(self.servers)}."
        impossible = words if len(self.servers) > 1 else ""
        return {
            **super().context(),
            "impossible": impossible,
            "tools": self.fitting,
            "shown": [_shown(tool) for tool in self.fitting],
            "alone": [
                {"name": self.called(tool), "why": why, "url": link("mcp_tool_change", tool.pk)}
                for tool, why in self.skipped
            ],
        }

    def back(self) -> str:
        """To where the tools were ticked."""
        if self.request.GET.get("from") == "server" and len(self.servers) == 1:
            return link("mcp_server_tools", self.chosen[0].server_id)
        return f"{link('mcp_tool_changelist')}?state=pending"

    def initial(self) -> dict[str, Any]:
        return {"hashes": ",".join(f"{tool.pk}:{tool.current.hash}" for tool in self.fitting if tool.current)}

    def effects(self) -> list[Effect]:
        return [counted("tools", len(self.fitting), "{} tool may be called", "{} tools may be called")]

    def each(self, form: ConsoleForm) -> Callable[[Tool], Any]:
        if len(self.servers) > 1:
            raise NotAllowed(ONE_SERVER)
        looked = dict(part.partition(":")[::2] for part in form.cleaned_data["hashes"].split(","))
        reason = form.cleaned_data["reason"]
        return lambda tool: self._approve(tool, looked, reason)

    def _approve(self, tool: Tool, looked: dict[str, str], reason: str) -> Identity:
        approved = definitions.approve_in_bulk(
            actor=self.actor, tool=tool, definition_hash=looked.get(str(tool.pk), ""), reason=reason,
            vocabulary=self.names_elsewhere,
        )  # fmt: skip
        return approved.identity


def _shown(tool: Tool) -> dict[str, Any]:
    """The whole of a definition but for how its server is reached, which is the same for all of them."""
    assert tool.current is not None  # what fits has one
    return {
        "name": tool.name,
        "hints": hints(tool),
        "fields": definition_view.fields(tool.current, with_server=False),
    }


URLS = [path("bulk/approve/", Approve.as_view(), name="mcp_tool_bulk_approve")]
