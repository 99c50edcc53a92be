"""Approving the first definitions of one new server together. What was changed is looked at one by one."""

from typing import Any

from django import forms
from django.http import HttpResponse
from django.urls import path
from django.utils.functional import cached_property

from common.admin import several
from common.admin.dialogs import Effect, counted
from common.admin.forms import ConsoleForm, ReasonField
from common.admin.pages import link, render
from common.errors import NotAllowed
from mcp import definitions
from mcp.choices import DefinitionState
from mcp.models import Tool
from nhi.access import ItemResult, attempt
from nhi.admin.base import ActingDialog
from nhi.models import Identity


class BulkForm(ConsoleForm):
    #: The hashes that the page showed, in the order of the names: what changed since then is refused.
    hashes = forms.CharField(widget=forms.HiddenInput, required=False)
    reason = ReasonField("First import, looked at", "Reviewed with the owner")


class Approve(ActingDialog):
    template = "admin/mcp/tools/bulk.html"
    form_class = BulkForm
    lead = "Calls pass by these definitions from then on. A later change of any of them waits again."

    def check(self) -> None:
        if self.actor.only_reads:
            raise NotAllowed("You may not approve definitions.")
        self.actor.require("mcp.approve_definition", "approve definitions of tools")

    @cached_property
    def chosen(self) -> list[Tool]:
        seen = Tool.objects.visible_to(self.actor).filter(pk__in=several.ticked(self.request))
        return list(seen.select_related("identity", "server", "current").order_by("server__name", "name"))

    @property
    def servers(self) -> list[str]:
        return sorted({tool.server.name for tool in self.chosen})

    @cached_property
    def fitting(self) -> list[Tool]:
        return [tool for tool in self.chosen if not misfit(tool)]

    @property
    def title(self) -> str:  # type: ignore[override]  # the number is known once there is a request
        count = len(self.fitting)
        of = f" of {self.servers[0]}" if len(self.servers) == 1 else ""
        return f"Approve {count} {'definition' if count == 1 else 'definitions'}{of}"

    @property
    def button(self) -> str:  # type: ignore[override]  # the same
        return self.title if self.fitting else ""

    @property
    def typed(self) -> str:  # type: ignore[override]  # the same
        return several.to_type(len(self.fitting))

    def context(self) -> dict[str, Any]:
        several_servers = len(self.servers) > 1
        words = f"Approve the tools of one server at a time: these are of {', '.join(self.servers)}."
        return {
            "title": self.title,
            "impossible": words if several_servers else "",
            "tools": self.fitting,
            "skipped": [f"{tool.identity.name}: {why}" for tool in self.chosen if (why := misfit(tool))],
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

    def act(self, form: ConsoleForm) -> HttpResponse:
        if len(self.servers) > 1:
            raise NotAllowed("Approve the tools of one server at a time.")
        looked = dict(part.partition(":")[::2] for part in form.cleaned_data["hashes"].split(","))
        reason = form.cleaned_data["reason"]
        results = [
            attempt(
                "tool", tool.identity.name, tool.pk, lambda tool=tool: self._approve(tool, looked, reason), done="done"
            )
            for tool in self.fitting
        ]  # fmt: skip
        results += [
            ItemResult("skipped", "tool", tool.identity.name, tool.pk, message=why)
            for tool in self.chosen
            if (why := misfit(tool))
        ]
        done = sum(item.result == "done" for item in results)
        title = f"Approve: {done} of {len(self.chosen)} done"
        return render(self.request, "console/results.html", title=title, results=results, back=self.back())

    def _approve(self, tool: Tool, looked: dict[str, str], reason: str) -> Identity:
        approved = definitions.approve(
            actor=self.actor, tool=tool, definition_hash=looked.get(str(tool.pk), ""), reason=reason
        )
        return approved.identity


def misfit(tool: Tool) -> str:
    """Why it is not approved among others; empty for a first definition without a flag."""
    if tool.state != DefinitionState.PENDING or tool.approved_id is not None:
        return f"is {DefinitionState(tool.state).label.lower()}, and is looked at by itself"
    if tool.current is None or tool.current.flags:
        return "has flags, and is looked at by itself"
    return ""


URLS = [path("bulk/approve/", Approve.as_view(), name="mcp_tool_bulk_approve")]
