"""Giving several agents several tools: what it would do is said first, item by item."""

import hashlib
from dataclasses import dataclass
from typing import Any

from django import forms
from django.http import HttpRequest, HttpResponse
from django.urls import path

from common import http_statuses
from common.console import badges
from common.console.badges import Badge
from common.console.forms import Chips, ConsoleForm, ReasonField
from common.console.pages import Crumb, link
from common.errors import Conflict, InvalidInput, NotAllowed
from nhi.access import bulk
from nhi.access.bulk import ItemResult
from nhi.admin.grants.give import REASONS
from nhi.admin.grants.limit_forms import LimitedForm, ToolLimits
from nhi.console import row_by_name_fields
from nhi.console.base import ActorPage
from nhi.models import Identity

MOST = bulk.MAX_TOOLS
BY_API = {
    "agent_id": "<id>",
    "pattern": "github.*",
    "expires_at": "2030-01-01T00:00:00Z",
    "reason": "Needed for its work",
}
WHAT = (("pattern", "By a pattern"), ("server", "A whole server"), ("tools", "A list of tools"))
FORESEEN = {"created": "Adds"}


class ManyForm(ToolLimits, LimitedForm):
    aliases = {**LimitedForm.aliases, **ToolLimits.limit_aliases, "tool_ids": "tools", "agent_id": "agents"}

    agents = row_by_name_fields.RowsByNameField(
        "agent", label="Agents", help_text="A name a line, or parted by commas."
    )
    what = forms.ChoiceField(choices=WHAT, initial="pattern", widget=Chips, label="Access to")
    pattern = forms.CharField(
        required=False,
        max_length=200,
        help_text="Like github.read, github.commits.* or github.*",
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
    )
    server = forms.CharField(
        required=False,
        max_length=63,
        help_text="The part of a tool's name before its first two underscores, like github.",
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
    )
    tools = row_by_name_fields.RowsByNameField(
        "tool", label="Tools", required=False, help_text="A name a line, or parted by commas."
    )
    reason = ReasonField(*REASONS)

    field_order = ("agents", "what", "pattern", "server", "tools", "ends", "ends_on", "reason")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name in ("pattern", "server", "tools"):
            self.fields[name].shown_for = f"what={name}"  # type: ignore[attr-defined]  # read by the field's template

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean()
        what = cleaned.get("what")
        if what and what not in self.errors and not cleaned.get(what):
            self.add_error(what, "Say which.")
        return cleaned

    @property
    def selection(self) -> bulk.ToolSelector:
        given = self.cleaned_data
        if given["what"] == "tools":
            return bulk.ToolSelector(tool_ids=tuple(tool.pk for tool in given["tools"]))
        if given["what"] == "server":
            return bulk.ToolSelector(server=given["server"].strip())
        return bulk.ToolSelector(pattern=given["pattern"].strip())


@dataclass(frozen=True)
class Line:
    """One agent and one tool: what would become of them, or what did."""

    agent: Identity
    item: ItemResult

    @property
    def adds(self) -> bool:
        return self.item.result == "created"

    @property
    def badge(self) -> Badge:
        return badges.find("result", self.item.result)

    @property
    def foreseen(self) -> Badge:
        return self.badge.saying(FORESEEN[self.item.result]) if self.item.result in FORESEEN else self.badge


class ManyPage(ActorPage):
    """Preview, then give. A give that would do other than was foreseen comes back with the new preview."""

    template = "nhi/grants/many.html"
    title = "Give many grants"

    def check(self) -> None:
        if self.actor.only_reads:
            raise NotAllowed("You may not give access.")
        self.actor.require("nhi.add_toolpermission", "give agents access to tools")

    def get(self, request: HttpRequest, **_kwargs: Any) -> HttpResponse:
        asked = request.GET
        agent = row_by_name_fields.initial_name("agent", self.actor, asked.get("agent", ""))
        initial = {"agents": agent, "pattern": asked.get("pattern", "")[:200]}
        return self._drawn(ManyForm(initial=initial))

    def post(self, request: HttpRequest, **_kwargs: Any) -> HttpResponse:
        form = ManyForm(request.POST)
        row_by_name_fields.bind_name_fields(form, self.actor)
        if not form.is_valid():
            return self._drawn(form, status=422)
        try:
            return self._previewed_or_given(request, form)
        except (InvalidInput, Conflict) as error:
            form.refuse(error)
            return self._drawn(form, status=422 if isinstance(error, InvalidInput) else http_statuses.status_for(error))

    def _previewed_or_given(self, request: HttpRequest, form: ManyForm) -> HttpResponse:
        lines = self._foreseen(form)
        shown: dict[str, Any] = {"lines": lines, "adds": sum(line.adds for line in lines), "seen": _fingerprint(lines)}
        if request.POST.get("do") != "give":
            return self._drawn(form, **shown)
        if request.POST.get("seen") != shown["seen"]:
            return self._drawn(form, **shown, other=True, status=409)
        return self._given(form)

    def _foreseen(self, form: ManyForm) -> list[Line]:
        agents: list[Identity] = form.cleaned_data["agents"]
        previews = bulk.preview_agents(actor=self.actor, agents=agents, selection=form.selection)
        lines = [
            Line(agent, item)
            for agent, preview in zip(agents, previews, strict=True)
            for item in preview.items
        ]  # fmt: skip
        if len(lines) > MOST:
            raise InvalidInput.for_field("agents", f"That makes {len(lines)} grants. Give at most {MOST} at a time.")
        return lines

    def _given(self, form: ManyForm) -> HttpResponse:
        given = form.cleaned_data
        results = [
            Line(agent, item)
            for agent in given["agents"]
            for item in bulk.give_tools(
                actor=self.actor, agent=agent, selection=form.selection, reason=given["reason"],
                expires_at=form.expires_at, limits=form.terms,
            )
        ]  # fmt: skip
        done = sum(line.adds for line in results)
        words = f"{done} {'grant was' if done == 1 else 'grants were'} given"
        return self._drawn(ManyForm(), results=results, title=f"{words}, {len(results) - done} not")

    def _drawn(self, form: ConsoleForm, *, status: int = 200, **more: Any) -> HttpResponse:
        row_by_name_fields.bind_name_fields(form, self.actor)
        crumb = Crumb("Grants", link("nhi_toolpermission_changelist"))
        return self.page(status=status, form=form, crumb=crumb, back=crumb.url, most=MOST, api=BY_API, **more)


def _fingerprint(lines: list[Line]) -> str:
    """Of what would be added: a number alone would not tell one choice from another."""
    added = "\n".join(sorted(f"{line.agent.pk} {line.item.target_id}" for line in lines if line.adds))
    return hashlib.sha256(added.encode()).hexdigest()


URLS = [path("many/", ManyPage.as_view(), name="bulk_grant")]
