"""What changed in a tool, and the yes of a person to exactly that."""

from typing import Any
from uuid import UUID

from django import forms
from django.contrib import messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import path
from django.utils.functional import cached_property

from common.console.confirmation_dialogs import ApiExample, Effect, counted
from common.console.forms import ConsoleForm, ReasonField
from common.console.pages import Control
from common.errors import NotAllowed
from mcp import rights
from mcp.admin.tools import callers, definition_view
from mcp.admin.tools.hub import Hub, OfTool
from mcp.choices import DefinitionState
from mcp.models import Tool, ToolDefinition
from mcp.tools import definitions, reviewers
from nhi.console.base import ActorDialog
from nhi.models import InvocationLog

BOUND = 1000
NAMED = 5
#: What a call is refused with while a definition waits.
REFUSED = ("definition_changed", "definition_pending")


class Waiting(OfTool):
    """What a page and a dialog about a waiting definition both say."""

    @cached_property
    def barred(self) -> str:
        """Why this person may not approve, as a sentence; empty when they may."""
        if self.actor.only_reads or not self.actor.may("mcp.approve_definition"):
            return "Approvers and security admins approve definitions."
        return reviewers.refusal_message(self.own, None) if self.own and not self.actor.is_superuser else ""

    @cached_property
    def own(self) -> reviewers.BarredReviewer | None:
        """What this person did that somebody else has to look at."""
        return self.bars.get(self.actor.id) if self.actor.id is not None else None

    @cached_property
    def bars(self) -> dict[UUID, reviewers.BarredReviewer]:
        return reviewers.find_barred(self.tool)

    @cached_property
    def dead_end(self) -> reviewers.ReviewDeadEnd | None:
        """Why nobody may approve it; said to those who could have."""
        return reviewers.find_dead_end(self.tool, self.bars) if self.own else None

    @cached_property
    def agents(self) -> int:
        """Who is held up while it waits."""
        return len(callers.callers([self.tool.identity]))

    def _refused(self) -> QuerySet[InvocationLog]:
        rows = InvocationLog.objects.filter(tool_name=self.tool.server.name, method=self.tool.name)
        return rows.filter(timestamp__gte=self.tool.state_since, reason__in=REFUSED).order_by()


class Change(Waiting, Hub):
    """The difference, whole: nothing of it is folded away or cut."""

    tab = "change"
    template = "admin/mcp/tools/change.html"

    def get(self, request: HttpRequest, **kwargs: Any) -> HttpResponse:
        if not self.waits:
            return HttpResponseRedirect(self.url("hub"))
        return super().get(request, **kwargs)

    def context(self) -> dict[str, Any]:
        tool, after = self.tool, self.tool.current
        assert after is not None  # what waits is there
        sees = rights.sees_configuration(self.actor, tool.server)
        found = definition_view.lines(tool.approved, after, with_server=sees) if tool.approved else []
        return {
            **super().context(),
            "before": tool.approved,
            "after": after,
            "lines": found,
            "fields": [] if tool.approved else definition_view.fields(after, with_server=sees),
            "elsewhere": definition_view.elsewhere(after, found, whole=tool.approved is None),
            "places": definition_view.places(found),
            "agents": self.agents,
            "refused": min(sum(self._refused().values_list("calls", flat=True)[:BOUND]), BOUND),
            "others": self._others() if self.own and not self.dead_end else [],
            "dead_end": self.dead_end,
            "breaks_glass": bool(self.own) and self.actor.is_superuser,
        }

    def _controls(self) -> list[Control]:
        keep = "Keep refusing" if self.tool.state == DefinitionState.QUARANTINED else "Leave it"
        approve = Control(f"Approve {self.tool.current}", self.url("approve"), "verified", blocked=self.barred)
        return [approve, Control(keep, self.url("hub"), "block", dialog=False)]

    def _others(self) -> list[str]:
        """Who may say yes instead."""
        free = reviewers.find_right_holders().visible_to(self.actor).exclude(pk__in=list(self.bars))
        return list(free.values_list("username", flat=True)[:NAMED])


class ApproveForm(ConsoleForm):
    """One tick for each flag, so that none is overlooked; and the hash of what was looked at."""

    aliases = {"definition_hash": "definition_hash"}
    definition_hash = forms.CharField(widget=forms.HiddenInput, max_length=64)
    reason = ReasonField()

    def __init__(self, *args: Any, flags: list[dict[str, Any]], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for number, flag in enumerate(flags):
            name = f"flag_{number}"
            self.fields[name] = forms.BooleanField(
                label=f"I have looked at {flag['place']}: {flag['message']}",
                error_messages={"required": "Tick this once you have looked at it."},
            )
        self.order_fields([*(f"flag_{number}" for number in range(len(flags))), "reason", "definition_hash"])


class Approve(Waiting, ActorDialog):
    template = "admin/mcp/tools/approve.html"
    wide = True

    def check(self) -> None:
        super().check()
        if self.barred:
            raise NotAllowed(reviewers.refusal_message(self.own, self.dead_end) if self.own else self.barred)

    @property
    def button(self) -> str:  # type: ignore[override]  # the name is known once there is a tool
        return f"Approve {self.tool.identity.name}"

    @property
    def lead(self) -> str:  # type: ignore[override]  # the same
        if self.own:
            return (
                f"You {self.own.reason}. You break glass: this goes on record as an approval without a second person."
            )
        return "From then on calls pass by this definition. A later change waits again."

    def effects(self) -> list[Effect]:
        again = " again" if self.tool.approved_id else ""
        return [counted("agents", self.agents, f"{{}} agent may call it{again}", f"{{}} agents may call it{again}")]

    def context(self) -> dict[str, Any]:
        words = "" if self.waits else f"{self.tool.identity.name} does not wait for an approval any more."
        return {
            "title": f"Approve {self.tool.identity.name} {self.tool.current or ''}",
            "impossible": words,
            "looked": self.looked,
        }

    @cached_property
    def looked(self) -> ToolDefinition | None:
        """The definition that was on the page: the posted one, which may be older than what waits by now."""
        posted = self.request.POST.get("definition_hash", "")
        if posted and self.tool.current is not None and posted != self.tool.current.hash:
            return ToolDefinition.objects.filter(tool=self.tool, hash=posted).first()
        return self.tool.current

    def form(self, data: Any = None) -> ConsoleForm:
        known = self.looked
        first = {"definition_hash": known.hash if known else ""}
        return ApproveForm(data, initial=first, flags=known.flags if known else [])

    def by_api(self) -> ApiExample:
        return ApiExample(
            self.api("approve"), {"definition_hash": self.looked.hash if self.looked else "…", "reason": "…"}
        )

    def back(self) -> str:
        return self.url("change") if self.waits else self.url("hub")

    def act(self, form: ConsoleForm) -> str:
        given = form.cleaned_data
        tool: Tool = definitions.approve(
            actor=self.actor, tool=self.tool, definition_hash=given["definition_hash"], reason=given["reason"]
        )
        messages.success(self.request, f"{tool.identity.name} is approved: calls pass by {tool.approved}.")
        return self.url("hub")


URLS = [
    path("<uuid:pk>/change/", Change.as_view(), name="mcp_tool_change"),
    path("<uuid:pk>/approve/", Approve.as_view(), name="mcp_tool_approve"),
]
