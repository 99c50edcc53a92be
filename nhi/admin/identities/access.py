"""Giving an agent access to tools and to other agents, and copying what another holds."""

from typing import Any
from uuid import UUID

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.urls import path

from common.console.confirmation_dialogs import ApiExample
from common.console.forms import Chips, ConsoleForm, ReasonField
from common.console.pages import render
from common.errors import Conflict, InvalidInput, NotAllowed
from nhi.access import bulk, grants
from nhi.admin.grants.limit_forms import MOST_CALLS, TASKS_PER_HOUR, LimitedForm, ToolLimits
from nhi.admin.identities.hub import OfIdentity
from nhi.choices import Kind, PermissionType
from nhi.console import row_by_name_fields
from nhi.console.base import ActorDialog
from nhi.models import Identity, NhiPermission
from nhi.models.identities import IdentityQuerySet

OFFERED = 100
WHAT = (("pattern", "A pattern"), ("server", "A whole server"), ("tools", "Single tools"))
OTHER = ("agent", "Another agent")
OF_TOOLS, OF_AGENTS = "what=pattern|server|tools", f"what={OTHER[0]}"


class ToolsField(forms.ModelMultipleChoiceField):  # type: ignore[type-arg]  # Django's stubs do not bind the model of a subclass
    """The first hundred tools by name; more by a pattern or a server."""

    widget = forms.CheckboxSelectMultiple


class GiveForm(ToolLimits, LimitedForm):
    aliases = {
        **LimitedForm.aliases, **ToolLimits.limit_aliases, "tool_ids": "tools", "target_id": "agent",
        "permission_type": "may", "allowed_actions": "actions",
    }  # fmt: skip

    what = forms.ChoiceField(choices=WHAT, initial="pattern", widget=Chips, label="Access to")
    pattern = forms.CharField(
        required=False,
        max_length=200,
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false", "list": "gh-capabilities"}),
    )
    server = forms.ChoiceField(required=False)
    tools = ToolsField(queryset=Identity.objects.none(), required=False)
    agent = row_by_name_fields.RowByNameField(
        "caller", label="Agent", required=False, help_text="It may be sent tasks from then on."
    )
    may = forms.ChoiceField(
        choices=PermissionType.choices, initial=PermissionType.CALL, widget=Chips, required=False,
        help_text="Call: the other acts with its own rights. Delegate: it acts on the caller's behalf.",
    )  # fmt: skip
    actions = forms.CharField(
        label="Task types",
        required=False,
        help_text="Names or globs, one a line, like release.*. Empty: all.",
        widget=forms.Textarea(attrs={"rows": 3, "autocomplete": "off", "spellcheck": "false"}),
    )
    tasks_per_hour = forms.IntegerField(
        label="Tasks per hour", required=False, min_value=1, max_value=MOST_CALLS, help_text=TASKS_PER_HOUR
    )
    limits = (*ToolLimits.limits, "actions", "tasks_per_hour")
    reason = ReasonField("Needed for its work", "Requested by the owner", "Trial")

    field_order = ("what", "pattern", "server", "tools", "agent", "may", "ends", "ends_on")

    def __init__(self, *args: Any, tools: IdentityQuerySet, agents: bool, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["what"].choices = [*WHAT, OTHER] if agents else WHAT  # type: ignore[attr-defined]  # a ChoiceField
        known = tools.filter(kind=Kind.TOOL).usable().order_by("name")
        names = list(known.values_list("name", "capability")[:2000])
        servers = sorted({name.partition("__")[0] for name, _ in names})
        self.fields["server"].choices = [(name, name) for name in servers]  # type: ignore[attr-defined]  # a ChoiceField
        self.fields["tools"].queryset = known.filter(pk__in=list(known.values_list("pk", flat=True)[:OFFERED]))  # type: ignore[attr-defined]  # a ModelMultipleChoiceField
        known_capabilities = {str(capability) for _, capability in names}
        self.capabilities = sorted(known_capabilities | {f"{name}.*" for name in servers})[:300]
        self.fields["pattern"].help_text = _examples(self.capabilities)
        shown = {name: f"what={name}" for name in ("pattern", "server", "tools", "agent")}
        shown |= dict.fromkeys(("may", "actions", "tasks_per_hour"), OF_AGENTS)
        for name, when in (shown | dict.fromkeys(ToolLimits.limits, OF_TOOLS)).items():
            self.fields[name].shown_for = when  # type: ignore[attr-defined]  # read by the field's template

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean()
        if self.is_for_agent and not cleaned.get("agent") and "agent" not in self.errors:
            self.add_error("agent", "Write the name of an agent.")
        return cleaned

    @property
    def is_for_agent(self) -> bool:
        return bool(self.cleaned_data.get("what") == OTHER[0])

    @property
    def main_fields(self) -> list[forms.BoundField]:
        """The reason stands below the preview and the limits."""
        return [field for field in super().main_fields if field.name != "reason"]

    @property
    def selection(self) -> bulk.ToolSelector:
        given = self.cleaned_data
        if given["what"] == "server":
            return bulk.ToolSelector(server=given["server"])
        if given["what"] == "tools":
            ids: tuple[UUID, ...] = tuple(tool.pk for tool in given["tools"])
            return bulk.ToolSelector(tool_ids=ids)
        return bulk.ToolSelector(pattern=given["pattern"].strip())


class Give(OfIdentity, ActorDialog):
    template = "nhi/identity/give.html"
    wide = True
    button = "Give access"

    def check(self) -> None:
        super().check()
        if self.actor.only_reads or self.identity.kind != Kind.AGENT:
            raise NotAllowed(f"You may not give {self.identity.name} access to tools.")
        self.actor.require("nhi.add_toolpermission", "give agents access to tools")

    def context(self) -> dict[str, Any]:
        return {
            "title": f"Give {self.identity.name} access",
            "preview_url": self.url("give_preview"),
        }

    def by_api(self) -> ApiExample:
        body = {"agent_id": str(self.identity.pk), "pattern": "github.read", "expires_at": None, "reason": "…"}
        return ApiExample("/api/nhi/permissions/tools/bulk", body)

    def form(self, data: Any = None) -> ConsoleForm:
        initial = {"pattern": self.request.GET.get("pattern", "")[:200]}
        seen, agents = Identity.objects.visible_to(self.actor), self.actor.may("nhi.add_nhipermission")
        return row_by_name_fields.bind_name_fields(
            GiveForm(data, initial=initial, tools=seen, agents=agents), self.actor
        )

    def act(self, form: ConsoleForm) -> str | HttpResponse:
        assert isinstance(form, GiveForm)
        if form.is_for_agent:
            return self._let_call(form)
        results = bulk.give_tools(
            actor=self.actor,
            agent=self.identity,
            selection=form.selection,
            reason=form.cleaned_data["reason"],
            expires_at=form.expires_at,
            limits=form.terms,
        )
        created = sum(item.result == "created" for item in results)
        if created == len(results):
            messages.success(self.request, f"{self.identity.name} was given {_grants(created)}.")
            return self.url("access")
        return self._results(results, created)

    def _let_call(self, form: GiveForm) -> str:
        given = form.cleaned_data
        grant = grants.give_nhi(
            actor=self.actor, source=self.identity, target=given["agent"],
            permission_type=given["may"] or PermissionType.CALL, reason=given["reason"], expires_at=form.expires_at,
            allowed_actions=given["actions"].split() or None, max_calls_per_hour=given["tasks_per_hour"],
        )  # fmt: skip
        messages.success(self.request, f"Given: {grant}.")
        return self.url("access")

    def _results(self, results: list[bulk.ItemResult], created: int) -> HttpResponse:
        title = f"{self.identity.name} was given {_grants(created)}"
        return render(self.request, "console/results.html", title=title, results=results, back=self.url("access"))


class GivePreview(Give):
    """The line under the choice, worked out while one chooses. It reads and changes nothing."""

    def post(self, request: HttpRequest, **_kwargs: Any) -> HttpResponse:
        form = self.form(request.POST)
        form.is_valid()
        assert isinstance(form, GiveForm)
        return render(request, "nhi/identity/give_preview.html", title="Preview", **self._foreseen(form))

    def _foreseen(self, form: GiveForm) -> dict[str, Any]:
        if not {"what", "pattern", "server", "tools"} <= set(form.cleaned_data) or not _chosen(form):
            return {"sentence": "", "wide": False}
        if form.is_for_agent:
            return self._foreseen_call(form.cleaned_data["agent"])
        try:
            preview = bulk.preview_agent(actor=self.actor, agent=self.identity, selection=form.selection)
        except (InvalidInput, Conflict) as error:
            said = error.fields[0].message if error.fields else error.message
            return {"sentence": said, "trouble": True}
        wide = form.cleaned_data["what"] != "tools" and form.cleaned_data.get("ends") == "never"
        return {"sentence": f"{preview.sentence.rstrip('.')}.", "items": preview.items[:20], "endless": wide}

    def _foreseen_call(self, other: Identity) -> dict[str, Any]:
        live = NhiPermission.objects.visible_to(self.actor).live().filter(source=self.identity, target=other)
        may = ", ".join(PermissionType(kind).label.lower() for kind in live.values_list("permission_type", flat=True))
        before = f"{self.identity.name} has a live grant for {other.name} already: {may}." if may else ""
        return {"sentence": before or f"Adds 1 grant: from {self.identity.name} to {other.name}.", "trouble": bool(may)}


class CopyForm(ConsoleForm):
    to = row_by_name_fields.RowByNameField("caller", label="To", help_text="The name of an agent or a service account.")


class Copy(OfIdentity, ActorDialog):
    button = "Copy access"
    form_class = CopyForm
    lead = (
        "The other one gets the live grants with their limits and ends, and the roles. "
        "What it holds already stays as it is."
    )

    def check(self) -> None:
        super().check()
        if self.actor.only_reads:
            raise NotAllowed("You may not give access.")
        self.actor.require("nhi.add_toolpermission", "give access")

    def context(self) -> dict[str, Any]:
        return {"title": f"Copy the access of {self.identity.name}"}

    def form(self, data: Any = None) -> ConsoleForm:
        return row_by_name_fields.bind_name_fields(super().form(data), self.actor)

    def by_api(self) -> ApiExample:
        return ApiExample(self.api("copy-access"), {"to_id": "…"})

    def act(self, form: ConsoleForm) -> str | HttpResponse:
        target = form.cleaned_data["to"]
        results = bulk.copy_access(actor=self.actor, source=self.identity, target=target)
        title = f"Copied from {self.identity.name} to {target.name}"
        return render(self.request, "console/results.html", title=title, results=results, back=self.url("access"))


def _examples(capabilities: list[str]) -> str:
    """Words that would match something here."""
    exact = [one for one in capabilities if not one.endswith(".*")][:2]
    whole = [one for one in capabilities if one.endswith(".*")][:1]
    return f"Like {' or '.join(exact + whole)}." if exact else "No tool can be called yet: add one first."


def _chosen(form: GiveForm) -> bool:
    return bool(form.cleaned_data.get(form.cleaned_data["what"]))


def _grants(count: int) -> str:
    return f"{count} {'grant' if count == 1 else 'grants'}"


URLS = [
    path("<uuid:pk>/give/", Give.as_view(), name="nhi_identity_give"),
    path("<uuid:pk>/give/preview/", GivePreview.as_view(), name="nhi_identity_give_preview"),
    path("<uuid:pk>/copy-access/", Copy.as_view(), name="nhi_identity_copy"),
]
