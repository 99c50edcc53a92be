"""What people say of a tool: its owner, whether each call waits for someone, whether it is on its way out."""

from typing import Any

from django.contrib import messages
from django.urls import path

from common.console.confirmation_dialogs import Effect, counted
from common.console.forms import ConsoleForm
from common.errors import NotAllowed
from mcp.admin.tools import callers
from mcp.admin.tools.hub import OfTool
from mcp.tools import catalogue
from nhi.console.base import ActorDialog
from nhi.console.row_by_name_fields import PersonField, bind_people_fields


class Verb(OfTool, ActorDialog):
    def check(self) -> None:
        super().check()
        if self.actor.only_reads:
            raise NotAllowed(f"You may not change {self.tool.identity.name}.")
        self.actor.require("mcp.change_tool", "change tools")

    @property
    def name(self) -> str:
        return self.tool.identity.name

    @property
    def title(self) -> str:  # type: ignore[override]  # the name is known once there is a tool
        return self.button

    def context(self) -> dict[str, Any]:
        return {"title": self.title}

    def agents(self, words: str) -> Effect:
        count = len(callers.callers([self.tool.identity]))
        return counted("agents", count, f"{{}} agent {words}", f"{{}} agents {words}")

    def said(self, sentence: str) -> str:
        messages.success(self.request, sentence)
        return self.url("hub")


class OwnerForm(ConsoleForm):
    aliases = {"owner_id": "owner"}

    owner = PersonField(label="New owner")


class Owner(Verb):
    lead = "The owner is told of what changes in it and answers for it."
    form_class = OwnerForm

    @property
    def button(self) -> str:  # type: ignore[override]  # the same
        return f"Change the owner of {self.name}"

    def initial(self) -> dict[str, Any]:
        return {"owner": self.tool.identity.owner}

    def form(self, data: Any = None) -> ConsoleForm:
        return bind_people_fields(super().form(data), self.actor, self.tool.identity.owner)

    def act(self, form: ConsoleForm) -> str:
        owner = form.cleaned_data["owner"]
        catalogue.change_tool(actor=self.actor, tool=self.tool, owner=owner)
        return self.said(f"{owner.username} owns {self.name} now.")


class EachCall(Verb):
    """Whether every call waits for a person, whoever makes it."""

    @property
    def button(self) -> str:  # type: ignore[override]  # the same
        if self.tool.requires_approval:
            return f"Let calls of {self.name} pass at once"
        return f"Let each call of {self.name} wait"

    @property
    def lead(self) -> str:  # type: ignore[override]  # the same
        if self.tool.requires_approval:
            return "A call passes without a person from then on; what a grant asks for still holds."
        return "Each call waits until a person approves it. Nobody approves calls of agents of their own."

    def effects(self) -> list[Effect]:
        return [] if self.tool.requires_approval else [self.agents("must wait for a person from then on")]

    def act(self, form: ConsoleForm) -> str:
        fresh = catalogue.change_tool(
            actor=self.actor, tool=self.tool, requires_approval=not self.tool.requires_approval
        )
        waits = (
            "Each call of {} waits for a person now." if fresh.requires_approval else "Calls of {} pass at once now."
        )
        return self.said(waits.format(self.name))


class Deprecation(Verb):
    """A mark for who looks: it still works."""

    @property
    def button(self) -> str:  # type: ignore[override]  # the same
        return f"Use {self.name} again" if self.tool.deprecated else f"Deprecate {self.name}"

    @property
    def lead(self) -> str:  # type: ignore[override]  # the same
        if self.tool.deprecated:
            return "The mark goes; nothing else changes."
        return "It is marked for everyone who lists tools. Calls still pass: to end them, revoke grants or disable it."

    def effects(self) -> list[Effect]:
        return [] if self.tool.deprecated else [self.agents("see that it is deprecated")]

    def act(self, form: ConsoleForm) -> str:
        fresh = catalogue.change_tool(actor=self.actor, tool=self.tool, deprecated=not self.tool.deprecated)
        return self.said(f"{self.name} is deprecated." if fresh.deprecated else f"{self.name} is in use again.")


URLS = [
    path("<uuid:pk>/owner/", Owner.as_view(), name="mcp_tool_owner"),
    path("<uuid:pk>/each-call/", EachCall.as_view(), name="mcp_tool_approval"),
    path("<uuid:pk>/deprecation/", Deprecation.as_view(), name="mcp_tool_deprecation"),
]
