"""Dialogs that make and change roles; what a change of patterns does is said before it is done."""

from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.urls import path
from django.utils.functional import cached_property

from common.console.confirmation_dialogs import ApiExample, Effect, counted
from common.console.forms import ConsoleForm, ReasonField, WordsField
from common.console.pages import link, render
from common.errors import NotAllowed, NotFound
from nhi.access import roles
from nhi.admin.roles.detail import OfRole, own_request
from nhi.console.base import ActorDialog
from nhi.decisions import capabilities
from nhi.models import RoleCapability

HELP = "A pattern a line: github.read, github.commits.*, github.* or *.*, which waits for a second admin."


class PatternsField(WordsField):
    widget = forms.Textarea

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(label="Patterns", required=False, help_text=HELP, **kwargs)
        self.widget.attrs |= {"rows": 6, "spellcheck": "false", "autocomplete": "off"}

    def prepare_value(self, value: Any) -> Any:
        return "\n".join(value) if isinstance(value, list) else value


class AddForm(ConsoleForm):
    aliases = {"capabilities": "patterns"}

    name = forms.CharField(
        max_length=63, help_text="Lower-case letters, digits, dots, underscores and hyphens.",
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
    )  # fmt: skip
    description = forms.CharField(max_length=1000, required=False)
    patterns = PatternsField()


class ChangeForm(ConsoleForm):
    aliases = {"capabilities": "patterns"}

    patterns = PatternsField()
    description = forms.CharField(max_length=1000, required=False)


class AddRole(ActorDialog):
    title = "Add a role"
    button = "Add role"
    form_class = AddForm
    wide = True

    def check(self) -> None:
        if self.actor.only_reads:
            raise NotAllowed("You may not add roles.")
        self.actor.require("nhi.add_role", "add roles")

    def back(self) -> str:
        return link("nhi_role_changelist")

    def by_api(self) -> ApiExample:
        return ApiExample("/api/nhi/roles", {"name": "reader", "capabilities": ["github.commits.*"]})

    def act(self, form: ConsoleForm) -> str:
        given = form.cleaned_data
        role = roles.create(
            actor=self.actor, name=given["name"], patterns=given["patterns"], description=given["description"]
        )
        messages.success(self.request, f"Added the role {role.name}.")
        return link("nhi_role_hub", role.pk)


class Changing(OfRole, ActorDialog):
    """A dialog that changes one role."""

    def check(self) -> None:
        super().check()
        if self.actor.only_reads:
            raise NotAllowed("You may not change roles.")
        self.actor.require("nhi.change_role", "change roles")


class ChangeRole(Changing):
    """The effect is part of what is submitted, so a change is never done before its effect was on the screen."""

    template = "nhi/role/change.html"
    form_class = ChangeForm
    wide = True

    @property
    def title(self) -> str:  # type: ignore[override]  # the name is known once there is a role
        return f"Change the patterns of {self.role.name}"

    @property
    def button(self) -> str:  # type: ignore[override]  # the same
        return f"Change {self.role.name}"

    def context(self) -> dict[str, Any]:
        return {"title": self.title, "preview_url": self.url("change_preview")}

    def by_api(self) -> ApiExample:
        return ApiExample(self.api(), {"capabilities": [one.pattern for one in self.current]}, "PATCH")

    def initial(self) -> dict[str, Any]:
        return {"patterns": [one.pattern for one in self.current], "description": self.role.description}

    def effects(self) -> list[Effect]:
        if self.request.method != "POST":
            return []
        wanted = ChangeForm(self.request.POST)
        wanted.is_valid()
        patterns = [one for one in wanted.cleaned_data.get("patterns", []) if capabilities.is_pattern(one)]
        return self._said(patterns)

    def _said(self, patterns: list[str]) -> list[Effect]:
        does = roles.preview_patterns(self.role, patterns)
        each = "identity" if does.identities == 1 else "identities"
        holders = f" for {does.identities} {each}" if does.identities else "; nobody holds the role yet"
        waits = capabilities.ALL_CAPABILITIES in patterns and capabilities.ALL_CAPABILITIES not in {
            one.pattern for one in self.current
        }
        return [
            counted("added", does.added, f"Adds {{}} tool{holders}", f"Adds {{}} tools{holders}"),
            counted("removed", does.removed, f"Removes {{}} tool{holders}", f"Removes {{}} tools{holders}"),
            Effect("waits", int(waits), "*.* lets nothing pass until a second admin has approved it"),
        ]

    def act(self, form: ConsoleForm) -> str:
        given = form.cleaned_data
        roles.change(actor=self.actor, role=self.role, patterns=given["patterns"], description=given["description"])
        messages.success(self.request, f"Changed the role {self.role.name}.")
        return self.back()


class ChangePreview(ChangeRole):
    """The line under the patterns, worked out while one types. It reads and changes nothing."""

    http_method_names = ["post"]

    def post(self, request: HttpRequest, **_kwargs: Any) -> HttpResponse:
        effects = self.effects()
        shown = [effect for effect in effects if effect.count]
        seen = ",".join(f"{effect.name}:{effect.count}" for effect in effects)
        return render(request, "nhi/role/change_preview.html", title="Preview", effects=shown, seen=seen)


class ApproveForm(ConsoleForm):
    reason = ReasonField("Reviewed with the owner", "Emergency access, agreed")


class Approve(Changing):
    """The second admin's yes to `*.*`."""

    form_class = ApproveForm
    button = "Approve *.*"

    def check(self) -> None:
        super().check()
        if self.actor.id == self.capability.added_by_id:
            raise roles.ApproverIsRequester(own_request(self.capability))

    @cached_property
    def capability(self) -> RoleCapability:
        found = next((one for one in self.current if one.pk == self.kwargs["capability"]), None)
        if found is None:
            raise NotFound
        return found

    @property
    def title(self) -> str:  # type: ignore[override]  # the name is known once there is a role
        return f"Approve *.* for {self.role.name}"

    @property
    def lead(self) -> str:  # type: ignore[override]  # the same
        asked = self.capability
        return f"{asked.added_by_name} asked for it. It covers every tool there is and every tool to come."

    def by_api(self) -> ApiExample:
        return ApiExample(self.api(f"/capabilities/{self.capability.pk}/approve"), {"reason": "…"})

    def effects(self) -> list[Effect]:
        had = [one.pattern for one in self.current if one.approved_at is not None]
        added = (
            roles.covered_tools([capabilities.ALL_CAPABILITIES])
            .exclude(pk__in=roles.covered_tools(had).values("pk"))
            .count()
        )
        held = roles.preview_patterns(self.role, had).identities
        return [
            counted("added", added, "Adds {} tool", "Adds {} tools"),
            counted("identities", held, "For {} identity that holds the role", "For {} identities that hold the role"),
        ]

    def act(self, form: ConsoleForm) -> str:
        roles.approve_capability(actor=self.actor, capability=self.capability, reason=form.cleaned_data["reason"])
        messages.success(self.request, f"*.* of {self.role.name} is approved.")
        return self.back()


URLS = [
    path("add/", AddRole.as_view(), name="nhi_role_add"),
    path("<uuid:pk>/change/", ChangeRole.as_view(), name="nhi_role_change"),
    path("<uuid:pk>/change/preview/", ChangePreview.as_view(), name="nhi_role_change_preview"),
    path("<uuid:pk>/approve/<uuid:capability>/", Approve.as_view(), name="nhi_role_approve"),
]
